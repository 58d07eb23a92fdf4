#include "cuda/linalg/lu.hpp"

#include <type_traits>

#include "cuda/core/check.hpp"
#include "cuda/core/context.hpp"
#include "cuda/linalg/elementwise.hpp"

namespace orthornn::cuda {

template <class T>
void invert_general(MatrixView<T> a, MatrixView<T> inverse, std::int64_t* pivots) {
  constexpr cudaDataType_t type = std::is_same_v<T, double> ? CUDA_R_64F : CUDA_R_32F;
  Context& gpu = context(a.device);
  const cusolverDnParams_t parameters = gpu.solver_parameters();
  std::size_t on_device = 0, on_host = 0;
  check(cusolverDnXgetrf_bufferSize(gpu.solver(), parameters, a.rows, a.cols, type, a.data, a.stride, type,
                                    &on_device, &on_host));
  // The previous call may still use the host memory.
  if (on_host > 0) gpu.wait();
  // The status of a singular matrix lies in front of the workspace on the device and is not read: the inverse
  // is then not finite.
  constexpr std::size_t aligned = 256;
  auto* scratch = gpu.scratch<std::byte>(aligned + on_device);
  auto* info = reinterpret_cast<int*>(scratch);
  check(cusolverDnXgetrf(gpu.solver(), parameters, a.rows, a.cols, type, a.data, a.stride, pivots, type,
                         scratch + aligned, on_device, gpu.host_scratch(on_host), on_host, info));
  set_identity<T>(inverse);
  check(cusolverDnXgetrs(gpu.solver(), parameters, CUBLAS_OP_N, a.rows, a.cols, type, a.data, a.stride,
                         pivots, type, inverse.data, inverse.stride, info));
  copy_matrix<T>(inverse, a);
}

template void invert_general<float>(MatrixView<float>, MatrixView<float>, std::int64_t*);
template void invert_general<double>(MatrixView<double>, MatrixView<double>, std::int64_t*);

}  // namespace orthornn::cuda
