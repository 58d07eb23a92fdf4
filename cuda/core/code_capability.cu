#include "cuda/core/check.hpp"
#include "cuda/core/code_capability.hpp"

namespace orthornn::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

int capability_of_loaded_code() {
  // Not binaryVersion: the driver compiles what was written for an older GPU, and left things out, to a
  // binary of its own version.
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, nothing));
  return attributes.ptxVersion;
}

}  // namespace orthornn::cuda
