#include "commands/eigen_product.hpp"

#include <Eigen/Core>
#include <algorithm>

#include "commands/timing.hpp"
#include "core/parallel.hpp"  // not public, but the product to compare with must be cut as the library cuts its own

namespace orthornn::program {

template <class T>
EigenProduct<T>::EigenProduct(Index n, Index batch)
    : q_(normal_tensor<T>({n, n}, Device::cpu(), 1)),
      h_(normal_tensor<T>({batch, n}, Device::cpu(), 2)),
      product_(Shape{batch, n}) {}

template <class T>
double EigenProduct<T>::gflops() {
  const Index n = q_.shape()[0], batch = h_.shape()[0];
  const double flops = 2.0 * static_cast<double>(n * n * batch);
  // At most so many that tiny matrices, which Eigen multiplies slowly, do not take seconds.
  const int repeats = static_cast<int>(std::clamp(5e9 / flops, 1.0, 5000.0));
  const double time = milliseconds(Device::cpu(), [&] {
    parallel_for(batch, 4, [&](Index first, Index last) {
      using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
      const Eigen::Map<const Matrix> left(q_.data(), n, n);
      const Eigen::Map<const Matrix> right(h_.data() + first * n, n, last - first);
      Eigen::Map<Matrix> result(product_.data() + first * n, n, last - first);
      for (int i = 0; i < repeats; ++i) result.noalias() = left * right;
    });
  });
  return flops * repeats / time * 1e-6;
}

template class EigenProduct<float>;
template class EigenProduct<double>;

}  // namespace orthornn::program
