#pragma once

#include <cstdint>

#include "optim/stiefel_steps.hpp"
#include "orthornn/core/tensor.hpp"
#include "orthornn/scalar/update_rules.hpp"

namespace orthornn {

/// Numbers of a point of St(N, M) in the flat buffers of a set and of its optimizer.
template <class T>
struct StiefelNumbers {
  T* value;
  const T* gradient;
  /// Null for 1.
  const double* gradient_scale;
  /// Null for 0. Where it is not 0, nothing changes.
  const std::int64_t* halted;
  /// [N M] each, or null.
  T *first_moment, *second_moment;
};

/// Riemannian steps of one point of St(N, M) (docs/math.md, section 11.3). They are computed in double, and
/// what is kept is rounded once: so a float point is as near to the manifold as floats can be, however many
/// steps went before.
template <class T>
class StiefelUpdate {
 public:
  StiefelUpdate(const Shape& shape, Index first_number, Device device, StiefelSgd::Metric metric,
                StiefelSgd::Retraction retraction);

  /// Place of the first number in the flat buffers.
  Index offset() const { return offset_; }
  /// A step of Rgd; without a first moment, one without momentum.
  void step(const SgdRule<double>& rule, const StiefelNumbers<T>& numbers);
  /// A step of RgdAdam, whose mean of squares is the first number of the second moment.
  void step(const AdamRule<double>& rule, const StiefelNumbers<T>& numbers);

 private:
  void load(const StiefelNumbers<T>& numbers);
  void advance_moment(double keep, double take, const StiefelNumbers<T>& numbers);
  void move(Tensor<double>& tangent, double length, const StiefelNumbers<T>& numbers);

  Index offset_;
  StiefelSgd::Metric metric_;
  StiefelSgd::Retraction retraction_;
  StiefelSteps<double> steps_;
  Tensor<double> point_, direction_, moment_;
  /// [1]: the sum of squares of a gradient, and their mean over the steps.
  Tensor<double> sum_, square_;
};

}  // namespace orthornn
