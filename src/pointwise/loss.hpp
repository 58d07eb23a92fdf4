#pragma once
// What losses compute at an entry or a row of outputs. Row t B + b is step t of sequence b.

#include <cmath>
#include <cstdint>

#include "orthornn/core/shape.hpp"
#include "orthornn/scalar/activation.hpp"

namespace orthornn::pointwise {

/// Whether a row is a step of its sequence, and not padding.
struct LiveRows {
  const std::int32_t* lengths;  ///< [B], or null: there is no padding.
  Index batch;                  ///< B

  constexpr bool operator()(Index row) const {
    return lengths == nullptr || row / batch < lengths[row % batch];
  }
};

/// Weights of targets.
struct TargetWeights {
  const float* weights;  ///< Or null: all weigh 1.

  constexpr float operator()(Index target) const { return weights == nullptr ? 1.0F : weights[target]; }
};

/// What is subtracted from the gradient of the target and from that of each class: with label smoothing e, a
/// target has the share 1 - e, and all classes share e.
template <class T>
struct Smoothing {
  T of_target, of_each;

  constexpr Smoothing(double smoothing, Index classes)
      : of_target(static_cast<T>(1 - smoothing)),
        of_each(static_cast<T>(smoothing / static_cast<double>(classes))) {}
};

/// Returns (y - value)^2 of an entry, `with_absolute` plus |y - value|, times its weight; with `gradient`, y
/// becomes its gradient. The value of an entry of weight 0 is not read, as it may be missing.
template <class T>
struct SquaredError {
  T* outputs;
  const float* values;
  TargetWeights weight_of;
  bool gradient, with_absolute;

  constexpr double operator()(Index i) const {
    const float weight = weight_of(i);
    if (weight == 0) {
      if (gradient) outputs[i] = 0;
      return 0;
    }
    const double difference = static_cast<double>(outputs[i]) - static_cast<double>(values[i]);
    const double sign = with_absolute ? sign_of(difference) : 0,
                 absolute = with_absolute ? std::fabs(difference) : 0;
    if (gradient) outputs[i] = static_cast<T>(2 * difference + sign) * static_cast<T>(weight);
    return static_cast<double>(weight) * (difference * difference + absolute);
  }
};

}  // namespace orthornn::pointwise
