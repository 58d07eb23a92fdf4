#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::testing {

/// y [H, W, F] += factor K * x, one product after the other, for K [q, q, C, F] and x [H, W, C].
inline void convolve_directly(ConstTensorView<double> kernel, ConstTensorView<double> x, double factor,
                              TensorView<double> y) {
  const Index reach = kernel.shape()[0] / 2, channels = x.shape()[2];
  for (Index i = 0; i < y.shape()[0]; ++i) {
    for (Index j = 0; j < y.shape()[1]; ++j) {
      for (Index di = -reach; di <= reach; ++di) {
        for (Index dj = -reach; dj <= reach; ++dj) {
          if (i + di < 0 || i + di >= x.shape()[0] || j + dj < 0 || j + dj >= x.shape()[1]) continue;
          for (Index c = 0; c < channels; ++c) {
            for (Index f = 0; f < y.shape()[2]; ++f)
              y(i, j, f) += factor * kernel(di + reach, dj + reach, c, f) * x(i + di, j + dj, c);
          }
        }
      }
    }
  }
}

}  // namespace orthornn::testing
