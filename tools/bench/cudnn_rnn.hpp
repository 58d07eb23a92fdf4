#pragma once

#include <string>

#include "bench/measured.hpp"
#include "orthornn/core/execution.hpp"

namespace orthornn::program {

/// True where this program was built with cuDNN, which the library itself never uses.
#ifdef ORTHORNN_WITH_CUDNN
inline constexpr bool has_cudnn = true;
#else
inline constexpr bool has_cudnn = false;
#endif

/// K of the layers that are timed whole. cuDNN has no recurrence without the product of its input.
inline constexpr Index measured_input_size = 10;

/// Operations of the products of G gates' recurrence and input, forward, backward and for the weights.
inline double flops_of_gates(Index gates, Index hidden, Index length, Index batch) {
  return 6.0 * static_cast<double>(gates * hidden * (hidden + measured_input_size)) *
         static_cast<double>(length * batch);
}

/// A layer of cuDNN's.
enum class CudnnLayer { tanh, lstm, gru };

/// What a user would take who does not need orthogonality: a layer of cuDNN's, forward and backward with the
/// gradients of its weights, its input and its first states, by the fastest of its algorithms in that
/// precision. Its input has `measured_input_size` entries; `cell` names it in messages.
/// Throws UsageError for a device that is no GPU, DeviceError where no algorithm takes the sizes.
Measured measured_cudnn_rnn(const std::string& cell, CudnnLayer layer, Index hidden, Index length,
                            Index batch, const Execution& execution);

}  // namespace orthornn::program
