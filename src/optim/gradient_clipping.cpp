#include "orthornn/optim/gradient_clipping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/optim/gradient_clipping.hpp"
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
    throw ValueError(
        fmt::format("gradient clipping: max_norm is {}; expected 0 (measure only) or more", max_norm));
  }
}

}  // namespace

template <class T>
void clip_by_global_norm(TensorView<T> gradients, double max_norm, TensorView<double> norm) {
  if constexpr (has_cuda_bodies) {
    if (gradients.device().is_cuda()) {
      check(max_norm);
      return cuda::clip_by_global_norm<T>(gradients, max_norm, norm);
    }
  }
  norm(0) = clip_by_global_norm<T>(gradients, max_norm);
}

template <class T>
double clip_by_global_norm(TensorView<T> gradients, double max_norm) {
  if constexpr (has_cuda_bodies) {
    if (gradients.device().is_cuda()) {
      Tensor<double> norm(Shape{1}, gradients.device());
      orthornn::clip_by_global_norm<T>(gradients, max_norm, norm);
      return norm.copy(Device::cpu())(0);
    }
  }
  check(max_norm);
  const Index count = gradients.size();
  const Index block_size = std::max(min_block_size, (count + max_blocks - 1) / max_blocks);
  const Index blocks = (count + block_size - 1) / block_size;
  T* const data = gradients.data();

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

  const double norm = std::sqrt(sum);
  if (max_norm > 0 && norm > max_norm && std::isfinite(norm)) {
    const T factor = static_cast<T>(max_norm / norm);
    parallel_for(count, block_size, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) data[i] *= factor;
    });
  }
  return norm;
}

template double clip_by_global_norm(TensorView<float>, double);
template double clip_by_global_norm(TensorView<double>, double);
template void clip_by_global_norm(TensorView<float>, double, TensorView<double>);
template void clip_by_global_norm(TensorView<double>, double, TensorView<double>);

}  // namespace orthornn
