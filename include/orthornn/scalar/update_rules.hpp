#pragma once
// One step of one number, for every device: the formulas of orthornn/optim/optimizer.hpp with their scalars
// for one kind of parameter. The scalars are computed in double and rounded once: 1 - beta2 would lose too
// many digits in float.

#include <cmath>

namespace orthornn {

/// A step of Sgd.
template <class T>
struct SgdRule {
  T rate;   ///< Learning rate lr.
  T decay;  ///< Weight decay lambda.
  T keep;   ///< Momentum mu.

  /// Updates one number without momentum.
  constexpr void operator()(T& value, T gradient) const { value -= rate * (gradient + decay * value); }
  /// Updates one number and its momentum b.
  constexpr void operator()(T& value, T gradient, T& momentum) const {
    momentum = keep * momentum + (gradient + decay * value);
    value -= rate * momentum;
  }
};

/// A step of RmsProp.
template <class T>
struct RmsPropRule {
  T rate;     ///< Learning rate lr.
  T decay;    ///< Weight decay lambda.
  T keep;     ///< Share of the mean of squares that is kept, `RmsProp::decay`.
  T take;     ///< The share 1 - keep.
  T epsilon;  ///< Number added to the root.

  /// Updates one number and its mean of squares s.
  constexpr void operator()(T& value, T gradient, T& square) const {
    const T decayed = gradient + decay * value;
    square = keep * square + take * decayed * decayed;
    value -= rate * decayed / (std::sqrt(square) + epsilon);
  }
};

/// A step of Adam or AdamW, which differ in the place of the weight decay.
template <class T>
struct AdamRule {
  T corrected_rate;  ///< The rate lr / (1 - beta1^t).
  T root_scale;      ///< Factor 1 / sqrt(1 - beta2^t) of the root.
  T decay;           ///< Weight decay lambda of Adam; 0 for AdamW.
  T shrink;          ///< Factor 1 - lr lambda of AdamW; 1 for Adam.
  T keep1;           ///< Share beta1 of the mean gradient that is kept.
  T take1;           ///< The share 1 - beta1.
  T keep2;           ///< Share beta2 of the mean of squares that is kept.
  T take2;           ///< The share 1 - beta2.
  T epsilon;         ///< Number added to the root.

  /// Updates one number, its mean gradient m and its mean of squares s.
  constexpr void operator()(T& value, T gradient, T& first, T& second) const {
    const T decayed = gradient + decay * value;
    first = keep1 * first + take1 * decayed;
    second = keep2 * second + take2 * decayed * decayed;
    value = shrink * value - corrected_rate * first / (std::sqrt(second) * root_scale + epsilon);
  }
};

}  // namespace orthornn
