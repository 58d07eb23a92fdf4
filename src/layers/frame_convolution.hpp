#pragma once

#include "layers/host_convolution.hpp"
#include "orthornn/core/execution.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn {

namespace cuda {
struct FrameMap;
}

/// The convolution y = K * x of frames x [.., H, W, C] with a kernel K [q, q, C, F], times a factor; y has
/// the rows and columns of x, around which there are zeros (docs/math.md, section 9.7).
///
/// It is a product with the matrix of all neighbourhoods. For q = 1 that is x. The CPU reads frames as they
/// lie. So does a GPU for floats and q = 3 and 5, if a frame and the kernel have at most 2^25 numbers, and
/// 2^16 channels. In all other cases the neighbourhoods of some frames at a time are copied to `neighbours`,
/// memory of the caller. The frames of a call are a whole multiple of those that it has room for.
template <class T>
class FrameConvolution {
 public:
  /// Of `inputs` C and `outputs` F, with an odd q.
  FrameConvolution(Index height, Index width, Index kernel_size, Index inputs, Index outputs, T factor,
                   const Execution& execution);

  /// Shape of the memory for neighbourhoods of so many frames; it has no rows where none are copied.
  Shape neighbours_shape(Index frames) const;
  /// The most kernels of a call on a GPU with `times` times as many frames as `neighbours` has room for.
  Index launches(Index times) const;

  /// y = b + factor K * x for a bias b [F]. Overwrites `neighbours`, as the other functions do.
  void apply(ConstTensorView<T> kernel, ConstTensorView<T> bias, ConstTensorView<T> x, TensorView<T> y,
             TensorView<T> neighbours) const;
  /// y += factor K * x, and then the step of y, if there is one: a step without h does nothing. Its h is y,
  /// and its size that of a frame, for a sequence has one frame here.
  void add(ConstTensorView<T> kernel, ConstTensorView<T> x, TensorView<T> y, TensorView<T> neighbours,
           const pointwise::ReluStep<T>& step = {}) const;
  /// d_kernel += its gradient, for a gradient g of y.
  void add_kernel_gradient(ConstTensorView<T> x, ConstTensorView<T> g, TensorView<T> d_kernel,
                           TensorView<T> neighbours) const;
  /// d_x += its gradient, and then the step of d_x, if there is one: a step without d does nothing. Its d is
  /// d_x, and its size that of a frame.
  void add_input_gradient(ConstTensorView<T> kernel, ConstTensorView<T> g, TensorView<T> d_x,
                          TensorView<T> neighbours, const pointwise::ReluStepBackward<T>& step = {}) const;

 private:
  enum class Neighbours { of_one_pixel, read_in_place, copied };

  Neighbours kind_on(Device device) const;
  bool is_read_by_gpu() const { return kind_ == Neighbours::read_in_place && execution_.device.is_cuda(); }
  Index pixels() const { return around_.height * around_.width; }
  /// For frames x [.., H, W, C].
  cuda::FrameMap map_of(ConstTensorView<T> x) const;
  HostConvolution<T> on_host() const { return {around_, inputs_, outputs_, factor_}; }
  Index frames_of(ConstTensorView<T> x) const { return x.size() / (pixels() * inputs_); }
  /// Calls body(x, y) with [pixels, C] and [pixels, F] of the frames whose neighbourhoods have room at a
  /// time.
  void for_each_part(auto x, auto y, TensorView<T> neighbours, const auto& body) const;
  /// The neighbourhoods of x [pixels, C] as rows.
  ConstTensorView<T> neighbours_of(ConstTensorView<T> x, TensorView<T> neighbours) const;

  pointwise::Neighbourhood around_;
  Index inputs_;
  Index outputs_;
  T factor_;
  Execution execution_;
  Neighbours kind_;
};

/// The convolutions of a recurrence of frames: of its inputs, and of its state, a frame of
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

  /// The most kernels of a step on a GPU: the convolution of the state, and a formula with peepholes.
  Index launches_of_step() const { return hidden.launches(1) + 2; }
  /// Of the forward over so many steps, with the inputs and their bias.
  Index launches(Index length) const { return length * launches_of_step() + 1 + input.launches(length); }
};

extern template class FrameConvolution<float>;
extern template class FrameConvolution<double>;

}  // namespace orthornn
