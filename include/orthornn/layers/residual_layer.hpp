#pragma once

#include <memory>

#include "orthornn/layers/container_layer.hpp"

namespace orthornn {

/// A layer y = x + f(x) for a layer f that reads vectors. Its parameters and states are those of f.
///
/// The sum costs one pass over memory forward, as f may need its own output. The backward copies the gradient
/// once, and f adds its own gradient to the copy.
template <class T>
class ResidualLayer final : public ContainerLayer<T> {
 public:
  using typename ContainerLayer<T>::Layers;

  /// Makes the layer around f. Throws as `check_sizes`.
  explicit ResidualLayer(std::unique_ptr<Layer<T>> f);
  /// Throws ValueError unless the two sizes are equal.
  static void check_sizes(Index input_size, Index output_size);

 private:
  explicit ResidualLayer(Layers layers);
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;
};

extern template class ResidualLayer<float>;
extern template class ResidualLayer<double>;

}  // namespace orthornn
