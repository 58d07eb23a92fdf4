#pragma once
// One step of one number, for every device: the formulas of orthornn/optim/optimizer.hpp with their scalars
// for one kind of parameter. The scalars are computed in double and rounded once: 1 - beta2 would lose too
// many digits in float.

#include <cmath>

namespace orthornn {

template <class T>
struct SgdRule {
  T rate;
  T decay;

  constexpr void operator()(T& value, T gradient) const { value -= rate * (gradient + decay * value); }
};

template <class T>
struct MomentumRule {
  T rate;
  T decay;
  T keep;

  constexpr void operator()(T& value, T gradient, T& momentum) const {
    momentum = keep * momentum + (gradient + decay * value);
    value -= rate * momentum;
  }
};

template <class T>
struct RmsPropRule {
  T rate;
  T decay;
  T keep;
  T take;
  T epsilon;

  constexpr void operator()(T& value, T gradient, T& square) const {
    const T decayed = gradient + decay * value;
    square = keep * square + take * decayed * decayed;
    value -= rate * decayed / (std::sqrt(square) + epsilon);
  }
};

/// Adam and AdamW: the same moments, the weight decay at another place.
template <class T>
struct AdamRule {
  T corrected_rate;
  T root_scale;
  T decay;
  T shrink;
  T keep1;
  T take1;
  T keep2;
  T take2;
  T epsilon;

  constexpr void operator()(T& value, T gradient, T& first, T& second) const {
    const T decayed = gradient + decay * value;
    first = keep1 * first + take1 * decayed;
    second = keep2 * second + take2 * decayed * decayed;
    value = shrink * value - corrected_rate * first / (std::sqrt(second) * root_scale + epsilon);
  }
};

}  // namespace orthornn
