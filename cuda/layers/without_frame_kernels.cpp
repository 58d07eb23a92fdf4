// The functions of frame_convolution.cu and frame_kernel_gradient.cu in builds without their kernels.
// cmake/cuda.cmake says which builds these are.

#include "cuda/layers/frame_convolution.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError("this build has no kernels that read frames in place; copy the neighbourhoods");
}

}  // namespace

bool takes_side(Index) { return false; }

void add_convolution(const FrameMap&, TensorView<const float>, TensorView<const float>,
                     TensorView<const float>, TensorView<float>, const pointwise::ReluStep<float>&) {
  refuse();
}

void add_input_gradient(const FrameMap&, TensorView<const float>, TensorView<const float>, TensorView<float>,
                        const pointwise::ReluStepBackward<float>&) {
  refuse();
}

void add_kernel_gradient(const FrameMap&, TensorView<const float>, TensorView<const float>,
                         TensorView<float>) {
  refuse();
}

}  // namespace orthornn::cuda
