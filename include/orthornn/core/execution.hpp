#pragma once

#include "orthornn/core/device.hpp"
#include "orthornn/core/precision.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// How a GPU carries the state of a recurrence through time. All give the same function.
enum class RolloutWay {
  /// The fastest that the sizes, the precision and the GPU allow.
  automatic,
  /// Q lives in the registers of one multiprocessor, which carries its sequences through all of T alone.
  /// Float, N <= 192, in fp32 whatever the precision: at these sizes a step waits more than it
  /// multiplies.
  resident,
  /// Q is spread over a thread-block cluster, whose blocks exchange the state through distributed shared
  /// memory. Float, compute capability 9.0, N <= 512 in fp32 and tf32, N <= 1024 in bf16.
  cluster,
  /// A matrix product and a pointwise kernel a step, recorded in a CUDA graph. Everything.
  stepwise,
};
template <>
struct Names<RolloutWay> {
  using enum RolloutWay;
  static constexpr Choice<RolloutWay> list[] = {
      {"automatic", automatic}, {"resident", resident}, {"cluster", cluster}, {"stepwise", stepwise}};
};

/// Where and how layers compute; not part of what a model is. A device alone stands for its defaults. The
/// precision is what products have at least.
struct Execution {
  Device device = Device::cpu();
  Precision precision = Precision::fp32;
  RolloutWay rollout = RolloutWay::automatic;
  /// Sequences B of a batch and steps T of a sequence, about: layers choose by them what is fastest. Results
  /// of any other batch are right too.
  Index expected_batch = 128;
  Index expected_length = 1000;

  Execution() = default;
  Execution(Device where, Precision with = Precision::fp32, RolloutWay by = RolloutWay::automatic)
      : device(where), precision(with), rollout(by) {}
};

}  // namespace orthornn
