#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::program {

/// Eigen's product of N x N by N x B numbers: what the machine reaches at the sizes of a recurrent step.
template <class T>
class EigenProduct {
 public:
  EigenProduct(Index n, Index batch);

  /// GFLOP/s: every thread multiplies its share of the columns, over and over, without waiting for the
  /// others.
  double gflops();

 private:
  Tensor<T> q_, h_, product_;
};

}  // namespace orthornn::program
