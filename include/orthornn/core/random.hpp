#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "orthornn/core/tensor.hpp"
#include "orthornn/scalar/philox.hpp"

namespace orthornn {

/// Draws from the stream (seed, purpose, index): nothing else decides what comes out. `index` is a step, an
/// epoch or a parameter's number. Cheap to make; keep none across steps.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t index = 0);

  std::uint32_t bits();
  /// Uniform in 0 .. bound - 1, bound >= 1; multiply-shift (bias below bound / 2^32).
  std::uint32_t integer(std::uint32_t bound);
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Standard normal (Box-Muller).
  double normal();

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
  double spare_normal_ = 0;
  bool has_spare_ = false;
};

/// Puts the values in a uniformly random order (Fisher-Yates), the same on every machine. At most 2^32 - 1
/// values.
template <class T>
void shuffle(std::span<T> values, RandomStream& stream) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[stream.integer(static_cast<std::uint32_t>(i))]);
  }
}

/// A uniformly random permutation of 0 .. count - 1 (Fisher-Yates), new or into memory that exists.
Tensor<std::int32_t> random_permutation(Index count, RandomStream stream);
void random_permutation(TensorView<std::int32_t> permutation, RandomStream stream);
/// Whether every number from 0 to count - 1 is there once.
bool is_permutation(ConstTensorView<std::int32_t> numbers);

}  // namespace orthornn
