#include "tasks/mnist/numpy_permutation.hpp"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "orthornn/core/error.hpp"

namespace orthornn {

Tensor<std::int32_t> numpy_permutation(Index count, std::uint64_t seed) {
  if (seed > std::numeric_limits<std::uint32_t>::max())
    throw ValueError(fmt::format("the permutation seed is {}; expected 0 to 2^32 - 1", seed));
  std::mt19937 generator(static_cast<std::uint32_t>(seed));
  Tensor<std::int32_t> permutation(Shape{count});
  std::iota(permutation.begin(), permutation.end(), 0);
  for (Index i = count - 1; i > 0; --i) {
    // Uniform in 0 .. i: words are cut to the bits of i and drawn again until one is not above i.
    const auto largest = static_cast<std::uint32_t>(i);
    const std::uint32_t mask = std::numeric_limits<std::uint32_t>::max() >> std::countl_zero(largest);
    std::uint32_t j = 0;
    do {
      j = static_cast<std::uint32_t>(generator()) & mask;
    } while (j > largest);
    std::swap(permutation(i), permutation(j));
  }
  return permutation;
}

}  // namespace orthornn
