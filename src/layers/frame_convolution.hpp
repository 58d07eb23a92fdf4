#pragma once

#include "orthornn/core/execution.hpp"
#include "orthornn/core/tensor.hpp"
#include "pointwise/frames.hpp"

namespace orthornn {

/// The convolution y = K * x of frames x [B, H, W, C] with a kernel K [q, q, C, F], times a factor; y has
/// the rows and columns of x, around which there are zeros (docs/math.md, section 9.7). It is a product with
/// the matrix of all neighbourhoods.
template <class T>
class FrameConvolution {
 public:
  /// Of `inputs` C and `outputs` F, with an odd q.
  FrameConvolution(Index height, Index width, Index kernel_size, Index inputs, Index outputs, T factor,
                   const Execution& execution)
      : around_{height, width, kernel_size / 2},
        inputs_(inputs),
        outputs_(outputs),
        factor_(factor),
        execution_(execution) {}

  /// Shape of the memory that a call for B frames needs.
  Shape neighbours_shape(Index batch) const {
    return {batch * around_.height * around_.width, around_.offsets() * inputs_};
  }
  /// y [B, H W F] += factor K * x. Overwrites `neighbours`.
  void add(ConstTensorView<T> kernel, ConstTensorView<T> x, TensorView<T> y, TensorView<T> neighbours) const;
  /// Adds the gradients of K and, unless d_x is empty, of x, for a gradient g [B, H W F] of y. Overwrites
  /// `neighbours`.
  void backward(ConstTensorView<T> kernel, ConstTensorView<T> x, ConstTensorView<T> g, TensorView<T> d_kernel,
                TensorView<T> d_x, TensorView<T> neighbours) const;

 private:
  void gather(ConstTensorView<T> x, TensorView<T> neighbours) const;

  pointwise::Neighbourhood around_;
  Index inputs_;
  Index outputs_;
  T factor_;
  Execution execution_;
};

/// The convolutions of a step of a recurrence of frames: of its input, and of its state, a frame of
/// `options.hidden_size` channels. Both have so many outputs.
template <class T>
struct FrameMaps {
  FrameConvolution<T> input, hidden;

  template <class Options>
  FrameMaps(const Options& options, Index input_channels, Index outputs, T hidden_factor,
            const Execution& execution)
      : input(options.height, options.width, options.kernel_size, input_channels, outputs, T{1}, execution),
        hidden(options.height, options.width, options.kernel_size, options.hidden_size, outputs,
               hidden_factor, execution) {}
};

extern template class FrameConvolution<float>;
extern template class FrameConvolution<double>;

}  // namespace orthornn
