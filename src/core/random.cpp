#include "orthornn/core/random.hpp"

#include <cmath>
#include <numbers>
#include <numeric>
#include <span>

namespace orthornn {

std::uint32_t RandomStream::bits() {
  if (used_ == 4) {
    block_ = stream_.block(blocks_++);
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

std::uint32_t RandomStream::integer(std::uint32_t bound) { return integer_below(bound, bits()); }

double RandomStream::uniform() {
  const std::uint64_t high = bits();
  const std::uint64_t word = (high << 32) | bits();
  return static_cast<double>(word >> 11) * 0x1p-53;
}

double RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));  // 1 - u lies in (0, 1]: no log of zero
  const double angle = 2 * std::numbers::pi * uniform();
  spare_normal_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

Tensor<std::int32_t> random_permutation(Index count, RandomStream stream) {
  Tensor<std::int32_t> permutation(Shape{count});
  random_permutation(permutation, stream);
  return permutation;
}

void random_permutation(TensorView<std::int32_t> permutation, RandomStream stream) {
  std::iota(permutation.begin(), permutation.end(), 0);
  shuffle(std::span(permutation.begin(), static_cast<std::size_t>(permutation.size())), stream);
}

bool is_permutation(ConstTensorView<std::int32_t> numbers) {
  Tensor<std::uint8_t> seen(Shape{numbers.size()});
  for (const std::int32_t i : numbers) {
    if (i < 0 || i >= numbers.size() || seen(i) != 0) return false;
    seen(i) = 1;
  }
  return true;
}

}  // namespace orthornn
