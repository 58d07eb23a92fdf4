#include "bench/eigen_product.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <memory>

#include "bench/measured.hpp"
#include "bench/random_tensors.hpp"
#include "core/parallel.hpp"  // not public, but the product to compare with must be cut as the library cuts its own

namespace orthornn::program {

template <class T>
std::function<double()> eigen_product(Device device, Index n, Index batch) {
  if (device.is_cuda()) return nullptr;
  struct Operands {
    Tensor<T> q, h, product;
  };
  const auto x = std::make_shared<Operands>(Operands{normal_tensor<T>({n, n}, device, 1),
                                                     normal_tensor<T>({batch, n}, device, 2),
                                                     Tensor<T>(Shape{batch, n})});
  return [x, n, batch] {
    const double flops = 2.0 * static_cast<double>(n * n * batch);
    // At most so many that tiny matrices, which Eigen multiplies slowly, do not take seconds.
    const int repeats = static_cast<int>(std::clamp(5e9 / flops, 1.0, 5000.0));
    const double time = milliseconds(Device::cpu(), [&] {
      parallel_for(batch, 4, [&](Index first, Index last) {
        using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
        const Eigen::Map<const Matrix> left(x->q.data(), n, n);
        const Eigen::Map<const Matrix> right(x->h.data() + first * n, n, last - first);
        Eigen::Map<Matrix> result(x->product.data() + first * n, n, last - first);
        for (int i = 0; i < repeats; ++i) result.noalias() = left * right;
      });
    });
    return flops * repeats / time * 1e-6;
  };
}

template std::function<double()> eigen_product<float>(Device device, Index n, Index batch);
template std::function<double()> eigen_product<double>(Device device, Index n, Index batch);

}  // namespace orthornn::program
