#pragma once

#include "orthornn/core/tensor.hpp"
#include "pointwise/frames.hpp"

namespace orthornn::cuda {

/// The map factor K * x of frames x [frames, H, W, C] with a kernel K [q, q, C, F]. Around frames there are
/// zeros. No neighbourhoods are copied: GPU kernels read frames as they lie.
struct FrameMap {
  Index frames, height, width;
  Index side;             ///< q, of `takes_side`
  Index inputs, outputs;  ///< C, F
  float factor;
  bool exact;  ///< products have the errors of float; else those of tf32
};

/// Whether these functions take kernels of so many rows and columns: 3 or 5. Those of 1 x 1 are products of
/// matrices, and larger ones are rare. A build that leaves the kernels out takes none.
bool takes_side(Index side);

/// y [frames, H, W, F] += factor K * x; or y = b + factor K * x for a bias b [F] that is not empty. Then the
/// step of y, if it has an h; a sequence has one frame.
void add_convolution(const FrameMap& map, TensorView<const float> kernel, TensorView<const float> bias,
                     TensorView<const float> x, TensorView<float> y, const pointwise::ReluStep<float>& step);
/// d_x += its gradient, for a gradient g of y. Then the step of d_x, if it has a d.
void add_input_gradient(const FrameMap& map, TensorView<const float> kernel, TensorView<const float> g,
                        TensorView<float> d_x, const pointwise::ReluStepBackward<float>& step);
/// d_kernel += that of the kernel.
void add_kernel_gradient(const FrameMap& map, TensorView<const float> x, TensorView<const float> g,
                         TensorView<float> d_kernel);

}  // namespace orthornn::cuda
