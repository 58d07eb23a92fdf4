#pragma once

#include <array>
#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011):
/// 128 random bits as a function of a 128-bit counter and a 64-bit key. The same on every device.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// What a stream of random numbers is for: streams of one seed never overlap.
enum class RandomPurpose : std::uint32_t {
  initialization = 1,
  training = 2,
  validation = 3,
  shuffle = 5,  // 4 was a purpose once
  test = 6,
  split = 7
};

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

/// A uniformly random permutation of 0 .. count - 1 (Fisher-Yates), new or into memory that exists.
Tensor<std::int32_t> random_permutation(Index count, RandomStream stream);
void random_permutation(TensorView<std::int32_t> permutation, RandomStream stream);
/// Whether every number from 0 to count - 1 is there once.
bool is_permutation(ConstTensorView<std::int32_t> numbers);

}  // namespace orthornn
