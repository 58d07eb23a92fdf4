#pragma once
// What single kernels make of the numbers of a rollout, whatever the planner takes.

#include <cstdint>

#include "cuda/rollouts/rollout_arguments.hpp"
#include "rollouts/rounded_recurrence.hpp"

namespace orthornn::testing {

/// What kernels make of numbers in a linear recurrence: rollout(direction, arguments, Q), forward and
/// backward.
template <class Rollout>
Numbers<float> found_by(Device device, const Numbers<float>& given, const Rollout& rollout) {
  const Tensor<float> q = given.q.copy(device), d_h_last = given.d_h_last.copy(device);
  const Tensor<std::int32_t> lengths = given.lengths.copy(device);
  Tensor<float> states = given.states.copy(device), d_states = given.d_states.copy(device);
  Tensor<float> h_last(given.h_last.shape(), device), d_h0(given.d_h0.shape(), device);
  const TensorView<float> steps = states.view().slice(1, d_states.shape()[0]);
  const cuda::RolloutArguments<float> arguments{.device = device,
                                                .length = d_states.shape()[0],
                                                .batch = d_states.shape()[1],
                                                .hidden_size = d_states.shape()[2],
                                                .activation = Activation::identity,
                                                .lengths = lengths.data(),
                                                .h_0 = states.data(),
                                                .inputs = steps.data(),
                                                .outputs = steps.data(),
                                                .h_last = h_last.data(),
                                                .d_h_last = d_h_last.data(),
                                                .d_outputs = d_states.data(),
                                                .d_inputs = d_states.data(),
                                                .d_h_0 = d_h0.data()};
  rollout(cuda::Direction::forward, arguments, static_cast<const float*>(q.data()));
  rollout(cuda::Direction::backward, arguments, static_cast<const float*>(q.data()));
  Numbers<float> result;
  result.states = states.copy(Device::cpu());
  result.d_states = d_states.copy(Device::cpu());
  result.h_last = h_last.copy(Device::cpu());
  result.d_h0 = d_h0.copy(Device::cpu());
  return result;
}

}  // namespace orthornn::testing
