#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "orthornn/core/tensor.hpp"
#include "orthornn/scalar/philox.hpp"

namespace orthornn {

/// A stream of random numbers. Seed, purpose and index alone decide its numbers, on every machine (Philox). A
/// stream is cheap to make: make a new one for each step and keep none across steps.
class RandomStream {
 public:
  /// The stream (seed, purpose, index), at its beginning. `index` is a step, an epoch or a parameter's
  /// number.
  RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t index = 0)
      : stream_(seed, purpose, index) {}

  /// Draws 32 random bits.
  std::uint32_t bits();
  /// Draws an integer uniform from 0 to bound - 1, bound >= 1, by multiply-shift (bias below bound / 2^32).
  std::uint32_t integer(std::uint32_t bound);
  /// Draws a number uniform in [0, 1), of 53 bits.
  double uniform();
  /// Draws a number uniform between `low` and `high`.
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Draws a standard normal number (Box-Muller).
  double normal();

 private:
  PhiloxStream stream_;
  std::uint64_t blocks_ = 0;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
  double spare_normal_ = 0;
  bool has_spare_ = false;
};

/// Puts at most 2^32 - 1 values in a uniformly random order (Fisher-Yates), equal on every machine.
template <class T>
void shuffle(std::span<T> values, RandomStream& stream) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[stream.integer(static_cast<std::uint32_t>(i))]);
  }
}

/// A uniformly random permutation of 0 to count - 1 (Fisher-Yates), [count], in new memory of the host.
Tensor<std::int32_t> random_permutation(Index count, RandomStream stream);
/// Writes a uniformly random permutation of 0 to count - 1 to a tensor of `count` numbers in memory of the
/// host.
void random_permutation(TensorView<std::int32_t> permutation, RandomStream stream);
/// Whether a tensor of `count` numbers in memory of the host has every number from 0 to count - 1 once.
bool is_permutation(ConstTensorView<std::int32_t> numbers);

}  // namespace orthornn
