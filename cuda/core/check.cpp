#include "cuda/core/check.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "orthornn/core/error.hpp"

namespace orthornn::cuda {
namespace {

[[noreturn]] void fail(const char* library, const char* message, const std::source_location& place) {
  throw DeviceError(fmt::format("{} failed: {} ({}:{})", library, message,
                                std::filesystem::path(place.file_name()).filename().string(), place.line()));
}

}  // namespace

void check(cudaError_t status, std::source_location place) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // else the caller's next look at CUDA's last error finds this one
  const char* advice = status == cudaErrorMemoryAllocation ? "; use a smaller batch or model" : "";
  fail("CUDA", fmt::format("{}{}", cudaGetErrorString(status), advice).c_str(), place);
}

void check(cublasStatus_t status, std::source_location place) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("cuBLAS", cublasGetStatusString(status), place);
}

void check(cusolverStatus_t status, std::source_location place) {
  if (status != CUSOLVER_STATUS_SUCCESS) {
    fail("cuSOLVER", fmt::format("status {}", static_cast<int>(status)).c_str(), place);
  }
}

}  // namespace orthornn::cuda
