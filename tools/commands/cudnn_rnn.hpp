#pragma once

#include <memory>

#include "commands/measured.hpp"
#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"

namespace orthornn::program {

/// True where this program was built with cuDNN, which the library itself never uses.
#ifdef ORTHORNN_WITH_CUDNN
inline constexpr bool has_cudnn = true;
#else
inline constexpr bool has_cudnn = false;
#endif

/// A layer of cuDNN's.
enum class CudnnLayer { tanh, lstm, gru };

/// What a user would take who does not need orthogonality: a layer of cuDNN's, forward and backward with the
/// gradients of its weights, its input and its first states, by the fastest of its algorithms in that
/// precision. Its input has `measured_input_size` entries.
/// Throws UsageError for a device that is no GPU, DeviceError where no algorithm takes the sizes.
std::unique_ptr<Measured> make_cudnn_rnn(CudnnLayer layer, const Execution& execution, Index hidden,
                                         Index length, Index batch);

}  // namespace orthornn::program

namespace orthornn {

template <>
struct Names<program::CudnnLayer> {
  using enum program::CudnnLayer;
  static constexpr Choice<program::CudnnLayer> list[] = {
      {"cudnn-tanh", tanh}, {"cudnn-lstm", lstm}, {"cudnn-gru", gru}};
};

}  // namespace orthornn
