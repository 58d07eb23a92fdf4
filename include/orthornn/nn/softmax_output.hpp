#pragma once

#include <optional>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/parameters.hpp"
#include "orthornn/core/saved.hpp"

namespace orthornn {

/// Outputs y = W h + b for C classes, and their softmax cross-entropy, where C is large. The outputs of a
/// batch are computed, and turned into their gradient, a few rows at a time, and never exist as a whole. On a
/// GPU in bf16, h, W and the gradient of y are rounded to bfloat16 for the products of a loss, and for the
/// gradient of the bias.
///
/// Parameters are PREFIX/weight [C, K] and PREFIX/bias [C]. A tied W is a parameter of another layer, the
/// vectors of an embedding (Press and Wolf, EACL 2017).
template <class T>
class SoftmaxOutput {
 public:
  /// Number of outputs that exist at once by default, unless a single row has more: 128 MiB in float, and in
  /// bf16 64 MiB for their gradient. Products of so many outputs are large enough to be fast.
  static constexpr Index default_most_outputs = Index{1} << 25;

  /// Numbers of the parameters in the set.
  struct Places {
    Index weight,  ///< Number of W.
        bias;      ///< Number of b.
  };
  /// Adds the parameters to the set and returns their numbers. Where `tied` is the number of W in the set, W
  /// is not added. Throws ValueError for sizes below 1 and for a tied W of another shape.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix, Index input_size,
                               Index classes, std::optional<Index> tied = {});

  /// Makes the outputs and adds their parameters to the set. `most_outputs` is the number of outputs that
  /// exist at once. Throws as `add_parameters`.
  SoftmaxOutput(ParameterSet<T>& parameters, const std::string& prefix, Index input_size, Index classes,
                std::optional<Index> tied = {}, const Execution& execution = {},
                Index most_outputs = default_most_outputs);

  /// Size K of an input h.
  Index input_size() const { return input_size_; }
  /// Number C of classes.
  Index classes() const { return classes_; }

  /// Draws W, also a tied one, from N(0, 1 / K), and sets b to 0.
  void initialize(std::uint64_t seed);

  /// Computes the outputs y [R, C] of h [R, K]. Throws ShapeError.
  void outputs(TensorView<const T> h, TensorView<T> y) const;

  /// Writes the BatchLoss of the classes [..] for h [.., K] to `value` [2], as softmax_cross_entropy.
  /// Allocates nothing once sized. Throws ShapeError, and ValueError for a class >= C; a GPU names its
  /// position within the part of the batch that was being computed.
  void loss(TensorView<const T> h, TensorView<const std::int32_t> classes, TensorView<double> value,
            Saved& scratch) const;
  /// Computes the loss, as `loss`, and overwrites the gradients of W and b, and of h in d_h [.., K]. They are
  /// the gradients of the smoothed loss (softmax_cross_entropy). The owner of a tied W adds to its gradient
  /// afterwards. Throws as `loss`.
  void loss_and_gradient(TensorView<const T> h, TensorView<const std::int32_t> classes, double smoothing,
                         TensorView<T> d_h, TensorView<double> value, Saved& scratch) const;

 private:
  void run(TensorView<const T> h, TensorView<const std::int32_t> classes, double smoothing, TensorView<T> d_h,
           TensorView<double> value, Saved& scratch) const;
  /// Runs with products of operands of type P.
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
