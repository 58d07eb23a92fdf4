#pragma once

#include "orthornn/core/fields.hpp"

namespace orthornn {

/// How a product of reflections is computed. All forms give the same function, up to rounding.
enum class ReflectionForm {
  /// The form that takes least time for a training step of the execution's batch and length
  /// (src/products/plan.hpp).
  automatic,
  /// Q is formed once, and a step is one N x N product (docs/math.md, section 1.5).
  dense,
  /// U and S^-1 U^T are formed once, and a step is two N x L products (docs/math.md, section 1.4).
  factored,
  /// A step applies one reflection after another to tiles of the batch. Nothing but unit vectors is formed.
  sequential,
};
template <>
struct Names<ReflectionForm> {
  using enum ReflectionForm;
  static constexpr Choice<ReflectionForm> list[] = {
      {"automatic", automatic}, {"dense", dense}, {"factored", factored}, {"sequential", sequential}};
};

}  // namespace orthornn
