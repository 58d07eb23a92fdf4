#pragma once

#include <memory>

#include "orthornn/layers/container_layer.hpp"

namespace orthornn {

/// y = x + f(x) for a layer f, of vectors. Its states are f's.
///
/// The sum costs one pass over memory forward, as f may need its own output. The backward copies the gradient
/// once, to which f adds its own.
template <class T>
class ResidualLayer final : public ContainerLayer<T> {
 public:
  using typename ContainerLayer<T>::Layers;

  /// Throws ValueError where f returns another number of entries than it reads.
  explicit ResidualLayer(std::unique_ptr<Layer<T>> f);
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
