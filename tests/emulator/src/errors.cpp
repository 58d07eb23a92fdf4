#include "runtime.hpp"

namespace orthornn::emulator {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace orthornn::emulator

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define ORTHORNN_EMULATED_ERROR(name, code, description) \
  case name:                                             \
    return #name;
    ORTHORNN_EMULATED_ERRORS(ORTHORNN_EMULATED_ERROR)
#undef ORTHORNN_EMULATED_ERROR
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define ORTHORNN_EMULATED_ERROR(name, code, description) \
  case name:                                             \
    return description;
    ORTHORNN_EMULATED_ERRORS(ORTHORNN_EMULATED_ERROR)
#undef ORTHORNN_EMULATED_ERROR
  }
  return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError() { return orthornn::emulator::last_error; }

cudaError_t cudaGetLastError() {
  const cudaError_t error = orthornn::emulator::last_error;
  orthornn::emulator::last_error = cudaSuccess;
  return error;
}
