#pragma once

#include <optional>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/parameters.hpp"
#include "orthornn/core/saved.hpp"

namespace orthornn {

/// Outputs y = W h + b for C classes, and their softmax cross-entropy, where C is large: the outputs of a
/// batch are computed, and turned into their gradient, a few rows at a time, and never exist as a whole.
/// On a GPU in bf16, h, W and the gradient of y are rounded to bfloat16 for the products of a loss, and for
/// the gradient of the bias.
///
/// Parameters are PREFIX/weight [C, K] and PREFIX/bias [C]. A tied W is a parameter of another layer, the
/// vectors of an embedding (Press and Wolf, EACL 2017).
template <class T>
class SoftmaxOutput {
 public:
  /// Outputs that exist at once, unless a single row has more: 128 MiB in float, and in bf16 64 MiB for their
  /// gradient. Products of so many outputs are large enough to be fast.
  static constexpr Index default_most_outputs = Index{1} << 25;

  struct Places {
    Index weight, bias;
  };
  /// Adds the parameters, without the weight where `tied` is its place. Throws ValueError for sizes below 1
  /// and for a tied weight of another shape.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix, Index input_size,
                               Index classes, std::optional<Index> tied = {});

  /// As `add_parameters`.
  SoftmaxOutput(ParameterSet<T>& parameters, const std::string& prefix, Index input_size, Index classes,
                std::optional<Index> tied = {}, const Execution& execution = {},
                Index most_outputs = default_most_outputs);

  Index input_size() const { return input_size_; }
  Index classes() const { return classes_; }

  /// W from N(0, 1 / K), also a tied one; b = 0.
  void initialize(std::uint64_t seed);

  /// y [R, C] of h [R, K]. Throws ShapeError.
  void outputs(TensorView<const T> h, TensorView<T> y) const;

  /// value [2] <- the BatchLoss of the classes [..] for h [.., K], as softmax_cross_entropy. Allocates
  /// nothing once sized. Throws ShapeError, and ValueError for a class >= C; a GPU names its position within
  /// the part of the batch that was being computed.
  void loss(TensorView<const T> h, TensorView<const std::int32_t> classes, TensorView<double> value,
            Saved& scratch) const;
  /// The same with the gradients of W and b, and that of h in d_h [.., K], all overwritten: those of the
  /// smoothed loss (softmax_cross_entropy). The owner of a tied W adds to its gradient afterwards.
  void loss_and_gradient(TensorView<const T> h, TensorView<const std::int32_t> classes, double smoothing,
                         TensorView<T> d_h, TensorView<double> value, Saved& scratch) const;

 private:
  void run(TensorView<const T> h, TensorView<const std::int32_t> classes, double smoothing, TensorView<T> d_h,
           TensorView<double> value, Saved& scratch) const;
  /// With products of operands of type P.
  template <class P>
  void run_with(TensorView<const T> h, TensorView<const std::int32_t> classes, double smoothing,
                TensorView<T> d_h, TensorView<double> value, Saved& scratch) const;

  ParameterSet<T>& parameters_;
  Places places_;
  Index input_size_;
  Index classes_;
  Execution execution_;
  Index most_outputs_;
};

extern template class SoftmaxOutput<float>;
extern template class SoftmaxOutput<double>;

}  // namespace orthornn
