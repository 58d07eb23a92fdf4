#pragma once
// A recurrence as a loop in double, whose products have their operands as a precision rounds them, and how
// near to it the numbers of a rollout must be.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "orthornn/rollouts/rollout.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {

/// To the nearest number with so many bits, ties to even or away, which differ in ties alone.
inline double round_to_bits(double x, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

/// How a product has an operand: as a sum of `terms` numbers of so many bits, of which each is what the ones
/// before it left, rounded. No terms: as it is.
struct Rounding {
  int bits = 0, terms = 0;

  double of(double x) const {
    double sum = 0;
    for (int term = 0; term < terms; ++term) sum += round_to_bits(x - sum, bits);
    return terms == 0 ? x : sum;
  }
  /// By how much it moves where x crosses from one rounded number to the next, relative to x, up to a factor
  /// of 2.
  double unit() const { return terms == 0 ? 0 : std::exp2(-bits * terms); }
};

struct Operands {
  Rounding q, state;
};

/// Of a rollout of many sequences: few of them are float over a cluster.
inline Operands operands_of(const Execution& execution, Index n) {
  const Precision precision = execution.precision;
  const int terms = precision == Precision::fp32 ? 3 : precision == Precision::tf32 ? 2 : 1;
  if (execution.rollout == RolloutWay::grid) return {{8, terms}, {8, terms}};
  // Tensor cores have no tf32 over clusters above 512.
  const bool large = execution.rollout == RolloutWay::cluster && n > 512;
  if (precision == Precision::fp32 || (large && precision == Precision::tf32)) return {};
  if (execution.rollout == RolloutWay::stepwise) return {{11, 1}, {11, 1}};
  return {{8, n <= 512 ? 2 : 1}, {8, n <= 256 || precision == Precision::tf32 ? 2 : 1}};
}

/// sigma' from h and from the sign of a.
inline double slope(Activation activation, double h, int sign) {
  switch (activation) {
    case Activation::tanh:
      return 1 - h * h;
    case Activation::relu:
      return h > 0;
    case Activation::abs:
      return sign;
    case Activation::modrelu:
      return h != 0;
    case Activation::identity:
      return 1;
  }
  return NAN;
}

struct RolloutSizes {
  Index n, batch, length;
};

/// The numbers of one rollout, forward and backward, in host memory.
template <class T>
struct Numbers {
  Tensor<T> q, modrelu_bias, states, h_last, d_states, d_h_last, d_h0;
  Tensor<std::int32_t> lengths;
  Tensor<std::int8_t> signs;
};

/// float: what a GPU is given. States hold h_0 and W x_t + b.
inline Numbers<float> random_numbers(const RolloutSizes& sizes, bool with_lengths, std::uint64_t seed) {
  const auto [n, batch, length] = sizes;
  Numbers<float> x;
  x.q.resize({n, n});
  make_transition<float>(Unconstrained{Init::haar}, n)->initialize(seed, x.q);
  x.modrelu_bias = normal_tensor<float>({n}, seed + 1, 0.1);
  x.states = normal_tensor<float>({length + 1, batch, n}, seed + 2, 0.5);
  x.d_states = normal_tensor<float>({length, batch, n}, seed + 3);
  x.d_h_last = normal_tensor<float>({batch, n}, seed + 4);
  x.h_last.resize({batch, n});
  x.d_h0.resize({batch, n});
  if (with_lengths) {
    x.lengths.resize({batch});
    RandomStream random(seed, RandomPurpose::validation);
    for (std::int32_t& live : x.lengths)
      live = static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(length + 1)));
  }
  return x;
}

/// The loop. Backward starts from the states that the GPU reached, so that a slope that jumps jumps for both.
inline Numbers<double> expected_numbers(const Numbers<float>& given, const Numbers<float>& found,
                                        Activation activation, const Operands& operands) {
  Numbers<double> x;
  x.states = cast<double>(given.states);
  x.d_states = cast<double>(given.d_states);
  x.h_last = cast<double>(given.h_last);
  x.d_h0.resize(given.d_h0.shape());
  x.q = cast<double>(given.q);
  for (double& value : x.q) value = operands.q.of(value);
  const Index length = x.d_states.shape()[0], batch = x.d_states.shape()[1], n = x.d_states.shape()[2];
  x.signs.resize({length, batch, n});
  Tensor<double> operand(Shape{n}), carried(Shape{n});
  for (Index b = 0; b < batch; ++b) {
    const Index live = given.lengths.empty() ? length : given.lengths(b);
    const auto keep = [&](Index t) {
      for (Index i = 0; i < n && t == live; ++i) x.h_last(b, i) = x.states(t, b, i);
    };
    keep(0);
    for (Index t = 0; t < length; ++t) {
      for (Index k = 0; k < n; ++k) operand(k) = operands.state.of(x.states(t, b, k));
      for (Index i = 0; i < n; ++i) {
        double a = x.states(t + 1, b, i);
        for (Index k = 0; k < n; ++k) a += x.q(i, k) * operand(k);
        x.signs(t, b, i) = static_cast<std::int8_t>((a > 0) - (a < 0));
        x.states(t + 1, b, i) = t < live ? sigma(activation, a, double(given.modrelu_bias(i))) : 0;
      }
      keep(t + 1);
    }
    std::fill(carried.begin(), carried.end(), 0.0);
    for (Index t = length - 1; t >= 0; --t) {
      for (Index i = 0; i < n; ++i) {
        double e = x.d_states(t, b, i) + carried(i);
        if (t + 1 == live && !given.d_h_last.empty()) e += double(given.d_h_last(b, i));
        const int sign = found.signs.empty() ? 0 : found.signs(t, b, i);
        x.d_states(t, b, i) = t < live ? slope(activation, double(found.states(t + 1, b, i)), sign) * e : 0;
        operand(i) = operands.state.of(x.d_states(t, b, i));
      }
      for (Index k = 0; k < n; ++k) {
        carried(k) = 0;
        for (Index i = 0; i < n; ++i) carried(k) += x.q(i, k) * operand(i);
      }
    }
    for (Index i = 0; i < n; ++i) {
      x.d_h0(b, i) = carried(i) + (live == 0 && !given.d_h_last.empty() ? double(given.d_h_last(b, i)) : 0);
    }
  }
  return x;
}

/// Relative, after T steps: the rounding of sums adds up as in tolerance::reference_float. A number of the
/// state that falls on the other side of a rounding is off by a whole unit of its precision (u): a share
/// error / u of them is, so a step moves the norm by sqrt(error u). The T + 1 steps (h_0 is rounded too)
/// round independently, so their norms add in squares. The unit is up to twice u; the rest of the 2 is
/// margin.
inline double rollout_bound(const RolloutSizes& sizes, const Operands& operands) {
  const double sums = tolerance::reference_float(sizes.length, sizes.n, 4);
  return sums + 2 * std::sqrt(static_cast<double>(sizes.length + 1) * sums * operands.state.unit());
}

/// That numbers are those of the loop, but for the rounding of sums.
inline void check_numbers(const Numbers<float>& found, const Numbers<double>& loop, const RolloutSizes& sizes,
                          Activation activation, const Operands& operands) {
  const double error = rollout_bound(sizes, operands);
  // Its values jump where the argument changes its sign. Those of others do not.
  const double forward = activation == Activation::modrelu
                             ? tolerance::with_kinks(error, sizes.n * sizes.batch * sizes.length)
                             : error;
  CHECK(relative_error(found.states, loop.states) < forward);
  CHECK(relative_error(found.h_last, loop.h_last) < forward);
  CHECK(relative_error(found.d_states, loop.d_states) < error);
  CHECK(relative_error(found.d_h0, loop.d_h0) < error);
}

}  // namespace orthornn::testing
