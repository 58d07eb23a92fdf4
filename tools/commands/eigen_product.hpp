#pragma once

#include <Eigen/Core>
#include <algorithm>

#include "commands/timing.hpp"
#include "core/parallel.hpp"  // not public, but the product to compare with must be cut as the library cuts its own

namespace orthornn::program {

/// Eigen's product of N x N by N x B numbers: what the machine reaches at the sizes of a recurrent step.
template <class T>
class EigenProduct {
 public:
  EigenProduct(Index n, Index batch)
      : q_(normal_tensor<T>({n, n}, Device::cpu(), 1)),
        h_(normal_tensor<T>({batch, n}, Device::cpu(), 2)),
        product_(Shape{batch, n}) {}

  /// GFLOP/s: every thread multiplies its share of the columns, over and over, without waiting for the
  /// others.
  double gflops() {
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

 private:
  Tensor<T> q_, h_, product_;
};

}  // namespace orthornn::program
