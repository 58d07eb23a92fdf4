#pragma once

#include "orthornn/core/own_kind.hpp"
#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// Options of a parametrization that a program has beside those of orthornn, without their type.
class OwnTransitionKind : public OwnOptions<OwnTransitionKind> {
 public:
  /// Whether a struct can be options of a parametrization.
  template <class Options>
  static constexpr bool fits = HasFields<Options>&& requires(const Options& options, Index hidden_size) {
    Options::name;
    Parameter(options.parameter(hidden_size));
  };
  template <class Options>
  class Of;

  /// The parameter of a transition of that size. Throws as the options' `parameter`, and ValueError for a
  /// field outside its domain.
  virtual Parameter parameter(Index hidden_size) const = 0;
  /// Makes the parts of a transition. Throws as the options' `parts`.
  virtual void make(Index hidden_size, const Execution& execution, TransitionParts<float>& parts) const = 0;
  /// Makes the parts of a transition of doubles, and throws as for floats.
  virtual void make(Index hidden_size, const Execution& execution, TransitionParts<double>& parts) const = 0;
};

template <class Options>
class OwnTransitionKind::Of final : public OwnOptionsOf<OwnTransitionKind, Options> {
 public:
  using OwnOptionsOf<OwnTransitionKind, Options>::OwnOptionsOf;

  Parameter parameter(Index hidden_size) const override {
    check_fields(Options::name, this->options);
    return this->options.parameter(hidden_size);
  }
  void make(Index hidden_size, const Execution& execution, TransitionParts<float>& parts) const override {
    parts = this->options.template parts<float>(hidden_size, execution);
  }
  void make(Index hidden_size, const Execution& execution, TransitionParts<double>& parts) const override {
    parts = this->options.template parts<double>(hidden_size, execution);
  }
};

/// A parametrization of a program's own among TransitionOptions. The struct that it is made of has what those
/// of orthornn have (orthogonal/parametrization.hpp): `name`, `fields`, `parameter` and `parts` for float and
/// double. `parts` makes objects that compute on the execution's device, or throws DeviceError.
using OwnTransition = OwnKind<OwnTransitionKind>;

}  // namespace orthornn
