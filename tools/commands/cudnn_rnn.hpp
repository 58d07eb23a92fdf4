#pragma once

#include <memory>

#include "commands/measured.hpp"
#include "orthornn/core/execution.hpp"

namespace orthornn::program {

/// True where this program was built with cuDNN, which the library itself never uses.
#ifdef ORTHORNN_WITH_CUDNN
inline constexpr bool has_cudnn = true;
#else
inline constexpr bool has_cudnn = false;
#endif

inline constexpr const char* cudnn_cell = "cudnn-tanh";
/// Entries of x_t: cuDNN has no recurrence without the product of its input.
inline constexpr Index cudnn_input_size = 10;

/// What a user would take who does not need orthogonality: a layer of cuDNN's tanh RNN, forward and backward
/// with the gradients of its weights and its input, by the fastest of its algorithms in that precision.
/// Throws UsageError for a device that is no GPU, DeviceError where no algorithm takes the sizes.
std::unique_ptr<Measured> make_cudnn_rnn(const Execution& execution, Index hidden, Index length, Index batch);

}  // namespace orthornn::program
