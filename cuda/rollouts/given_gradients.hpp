#pragma once

#include <cstddef>

#include "cuda/core/device.hpp"
#include "cuda/rollouts/rollout_arguments.hpp"

namespace orthornn::cuda {

/// The arguments of a backward for a kernel that reads gradients of the outputs in any case: where none are
/// given, zeros are written to the place of the results. Those of a forward stay as they are.
template <class T>
RolloutArguments<T> with_given_gradients(RolloutArguments<T> arguments) {
  if (arguments.d_outputs != nullptr || arguments.d_inputs == nullptr) return arguments;
  const Index count = arguments.length * arguments.batch * arguments.hidden_size;
  fill_zero(arguments.device, arguments.d_inputs, static_cast<std::size_t>(count) * sizeof(T));
  arguments.d_outputs = arguments.d_inputs;
  return arguments;
}

}  // namespace orthornn::cuda
