#include "orthornn/optim/gradient_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <initializer_list>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/optim/gradient_scale.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

// The sum is cut into at most this many blocks of equal length. The partial sums fit on the stack. The
// borders depend only on the number of elements.
constexpr Index max_blocks = 256;
// Scheduling a shorter block would cost more than its sum.
constexpr Index min_block_size = 4096;

void check(double max_norm) {
  if (!(max_norm >= 0)) {
    throw ValueError(fmt::format("the gradient's max_norm is {}; expected 0 (no limit) or more", max_norm));
  }
}

/// Sum of squares in a fixed order.
template <class T>
double sum_of_squares(ConstTensorView<T> gradients) {
  const Index count = gradients.size();
  const Index block_size = std::max(min_block_size, (count + max_blocks - 1) / max_blocks);
  const Index blocks = (count + block_size - 1) / block_size;
  const T* const data = gradients.data();

  std::array<double, max_blocks> sums{};
  parallel_for(blocks, 1, [&](Index first_block, Index last_block) {
    for (Index block = first_block; block < last_block; ++block) {
      const Index last = std::min(count, (block + 1) * block_size);
      double sum = 0;
      for (Index i = block * block_size; i < last; ++i) {
        const double gradient = static_cast<double>(data[i]);
        sum += gradient * gradient;
      }
      sums[static_cast<std::size_t>(block)] = sum;
    }
  });
  double sum = 0;
  for (Index block = 0; block < blocks; ++block) sum += sums[static_cast<std::size_t>(block)];
  return sum;
}

}  // namespace

template <class T>
void gradient_scale(ConstTensorView<T> gradients, TensorView<const double> loss, double max_norm,
                    TensorView<double> scale) {
  check(max_norm);
  check_shape("loss", loss.shape(), {2});
  check_shape("scale", scale.shape(), {2});
  for (const Device device : {loss.device(), scale.device()}) {
    if (device == gradients.device()) continue;
    throw DeviceError(
        fmt::format("gradients lie in memory of {}, loss or scale in that of {}; expected one device",
                    to_string(gradients.device()), to_string(device)));
  }
  if constexpr (has_cuda_bodies) {
    if (gradients.device().is_cuda()) return cuda::gradient_scale<T>(gradients, loss, max_norm, scale);
  }
  const GradientScale found = scale_of(std::sqrt(sum_of_squares<T>(gradients)), loss(1), max_norm);
  scale(0) = found.norm;
  scale(1) = found.factor;
}

template <class T>
GradientScale gradient_scale(ConstTensorView<T> gradients, double count, double max_norm) {
  const Device device = gradients.device();
  Tensor<double> loss(Shape{2});
  loss(1) = count;
  Tensor<double> scale(Shape{2}, device);
  gradient_scale<T>(gradients, loss.copy(device), max_norm, scale);
  const Tensor<double> here = scale.copy(Device::cpu());
  return {.norm = here(0), .factor = here(1)};
}

template GradientScale gradient_scale<float>(TensorView<const float>, double, double);
template GradientScale gradient_scale<double>(TensorView<const double>, double, double);
template void gradient_scale<float>(TensorView<const float>, TensorView<const double>, double,
                                    TensorView<double>);
template void gradient_scale<double>(TensorView<const double>, TensorView<const double>, double,
                                     TensorView<double>);

}  // namespace orthornn
