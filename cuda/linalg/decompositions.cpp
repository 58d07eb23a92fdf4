#include "cuda/linalg/decompositions.hpp"

#include <cstddef>
#include <type_traits>

#include "cuda/core/check.hpp"
#include "cuda/core/context.hpp"
#include "cuda/linalg/elementwise.hpp"

namespace orthornn::cuda {
namespace {

/// Memory that a function of cuSOLVER asks for.
struct SolverMemory {
  SolverMemory(Context& gpu, std::size_t device_bytes, std::size_t host_bytes) {
    // The previous call may still use the host memory.
    if (host_bytes > 0) gpu.wait();
    constexpr std::size_t aligned = 256;
    auto* scratch = gpu.scratch<std::byte>(aligned + device_bytes);
    info = reinterpret_cast<int*>(scratch);
    on_device = scratch + aligned;
    on_host = gpu.host_scratch(host_bytes);
  }

  int* info;
  void *on_device, *on_host;
};

cublasStatus_t solve_upper(cublasHandle_t blas, MatrixView<double> r, MatrixView<double> x) {
  constexpr double one = 1;
  return cublasDtrsm_64(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT,
                        x.rows, x.cols, &one, r.data, r.stride, x.data, x.stride);
}
cublasStatus_t solve_upper(cublasHandle_t blas, MatrixView<float> r, MatrixView<float> x) {
  constexpr float one = 1;
  return cublasStrsm_64(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT,
                        x.rows, x.cols, &one, r.data, r.stride, x.data, x.stride);
}

}  // namespace

bool has_decompositions() { return true; }

template <class T>
void invert_cholesky_factor(MatrixView<T> a, MatrixView<T> workspace) {
  constexpr cudaDataType_t type = std::is_same_v<T, double> ? CUDA_R_64F : CUDA_R_32F;
  Context& gpu = context(a.device);
  const cusolverDnParams_t parameters = gpu.solver_parameters();
  std::size_t on_device = 0, on_host = 0;
  check(cusolverDnXpotrf_bufferSize(gpu.solver(), parameters, CUBLAS_FILL_MODE_UPPER, a.cols, type, a.data,
                                    a.stride, type, &on_device, &on_host));
  const SolverMemory memory(gpu, on_device, on_host);
  check(cusolverDnXpotrf(gpu.solver(), parameters, CUBLAS_FILL_MODE_UPPER, a.cols, type, a.data, a.stride,
                         type, memory.on_device, on_device, memory.on_host, on_host, memory.info));
  set_identity<T>(workspace);
  check(solve_upper(gpu.blas(), a, workspace));
  copy_matrix<T>(workspace, a);
}

void symmetric_eigenvectors(MatrixView<double> a, double* eigenvalues) {
  constexpr cudaDataType_t type = CUDA_R_64F;
  Context& gpu = context(a.device);
  gpu.refuse_waiting();  // cuSOLVER waits
  const cusolverDnParams_t parameters = gpu.solver_parameters();
  std::size_t on_device = 0, on_host = 0;
  check(cusolverDnXsyevd_bufferSize(gpu.solver(), parameters, CUSOLVER_EIG_MODE_VECTOR,
                                    CUBLAS_FILL_MODE_LOWER, a.cols, type, a.data, a.stride, type, eigenvalues,
                                    type, &on_device, &on_host));
  const SolverMemory memory(gpu, on_device, on_host);
  check(cusolverDnXsyevd(gpu.solver(), parameters, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, a.cols,
                         type, a.data, a.stride, type, eigenvalues, type, memory.on_device, on_device,
                         memory.on_host, on_host, memory.info));
}

template void invert_cholesky_factor<float>(MatrixView<float>, MatrixView<float>);
template void invert_cholesky_factor<double>(MatrixView<double>, MatrixView<double>);

}  // namespace orthornn::cuda
