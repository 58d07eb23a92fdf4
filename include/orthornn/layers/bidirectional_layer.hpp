#pragma once

#include <memory>

#include "orthornn/layers/container_layer.hpp"

namespace orthornn {

/// Two layers with parameters of their own. One reads a sequence as it is; the other reads its live steps
/// from the last to the first. y_t [N + N'] has what both return when they read x_t, the first before the
/// second.
///
/// States are those of the first layer, then those of the second. The last states of the second are those
/// after step 0, as in PyTorch.
template <class T>
class BidirectionalLayer final : public ContainerLayer<T> {
 public:
  using typename ContainerLayer<T>::Layers;

  /// Throws ValueError for layers of different input sizes, and as StackLayer for their parameters.
  BidirectionalLayer(std::unique_ptr<Layer<T>> forward, std::unique_ptr<Layer<T>> backward);

  bool is_causal() const override { return false; }

 private:
  explicit BidirectionalLayer(Layers layers);
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;
};

extern template class BidirectionalLayer<float>;
extern template class BidirectionalLayer<double>;

}  // namespace orthornn
