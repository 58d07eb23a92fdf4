#pragma once

#include "orthornn/nn/softmax_output.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {

/// A softmax output with its parameters, and a batch [T, B] of inputs and classes, of which some do not
/// count.
template <class T>
struct SoftmaxOutputCase {
  static constexpr Index length = 5, batch = 3, inputs = 4, classes = 11;

  ParameterSet<T> parameters;
  SoftmaxOutput<T> output;
  Tensor<T> h, d_h;
  Tensor<std::int32_t> targets;
  Tensor<double> value;
  Saved scratch;

  explicit SoftmaxOutputCase(Index most_outputs, const Execution& execution = {}, Index class_count = classes)
      : output(parameters, "output", inputs, class_count, {}, execution, most_outputs),
        h(normal_tensor<T>({length, batch, inputs}, 1).copy(execution.device)),
        d_h(h.shape(), execution.device),
        value(Shape{2}, execution.device),
        scratch(execution.device) {
    parameters.allocate(execution.device);
    copy<T>(normal_tensor<T>(parameters.values().shape(), 2, 0.5), parameters.values());
    Tensor<std::int32_t> drawn(Shape{length, batch});
    for (Index i = 0; i < drawn.size(); ++i)
      drawn.data()[i] = static_cast<std::int32_t>(i * 179 % (class_count + 1)) - 1;
    drawn.data()[drawn.size() - 1] = static_cast<std::int32_t>(class_count - 1);
    targets = drawn.copy(execution.device);
  }
  SoftmaxOutputCase(SoftmaxOutputCase&&) = delete;  // the output refers to the parameters

  void run(double smoothing = 0) { output.loss_and_gradient(h, targets, smoothing, d_h, value, scratch); }
  double loss() {
    output.loss(h, targets, value, scratch);
    return value(0);
  }
};

}  // namespace orthornn::testing
