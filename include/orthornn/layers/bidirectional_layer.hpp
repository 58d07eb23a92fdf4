#pragma once

#include <memory>

#include "orthornn/layers/container_layer.hpp"

namespace orthornn {

/// Two layers side by side, with parameters of their own. One reads a sequence as it is; the other reads its
/// live steps from the last to the first. The output y_t [N + N'] joins the outputs of the two layers when
/// they read x_t, the first layer's before the second's.
///
/// The states of the first layer come before the states of the second. The last states of the second layer
/// are its states after step 0, as in PyTorch.
template <class T>
class BidirectionalLayer final : public ContainerLayer<T> {
 public:
  using typename ContainerLayer<T>::Layers;

  /// Joins two layers whose parameters were added to one set, the first layer's before the second's. Throws
  /// ValueError for layers of different input sizes, and as StackLayer for their parameters.
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
