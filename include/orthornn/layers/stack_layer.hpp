#pragma once

#include "orthornn/layers/container_layer.hpp"

namespace orthornn {

/// Layers one on the other: each layer reads the output of the layer before it. The first may read symbols.
template <class T>
class StackLayer final : public ContainerLayer<T> {
 public:
  using typename ContainerLayer<T>::Layers;

  /// Joins layers, the first one first. Throws ValueError for no layer, for layers whose sizes do not fit,
  /// and where their parameters were not added to one set one after the other.
  explicit StackLayer(Layers layers);

 private:
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;
  bool takes_zero_output() const override { return true; }
};

extern template class StackLayer<float>;
extern template class StackLayer<double>;

}  // namespace orthornn
