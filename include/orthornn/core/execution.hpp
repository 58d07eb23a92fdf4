#pragma once

#include "orthornn/core/device.hpp"
#include "orthornn/core/precision.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// How a GPU carries the state of a recurrence through time. All ways compute one function.
enum class RolloutWay {
  /// The fastest way that the sizes, the precision and the GPU allow.
  automatic,
  /// Q lives in the registers of one multiprocessor, which carries its sequences through all of T alone.
  /// Float, N <= 192, in fp32 whatever the precision: at these sizes a step waits more than it
  /// multiplies.
  resident,
  /// Q is spread over a thread-block cluster, whose blocks exchange the state through distributed shared
  /// memory. Float, compute capability 9.0, N <= 512 in fp32 and tf32, N <= 1024 in bf16.
  cluster,
  /// Q is spread over groups of the GPU's multiprocessors, which exchange the state through the L2 cache.
  /// Float, compute capability 9.0, N <= 48 for each multiprocessor (6336 on an H200), in bf16 64 (8448);
  /// on tensor cores in every precision. `automatic` takes it for N <= 2112, in bf16 N <= 4096. LSTM and GRU
  /// have it for N <= 16 for each multiprocessor (2112), and `automatic` takes it for N <= 1024, in tf32 N <=
  /// 512.
  grid,
  /// A step is a matrix product and a pointwise kernel, and all steps are recorded in a CUDA graph. Any type
  /// and any size.
  stepwise,
};
template <>
struct Names<RolloutWay> {
  using enum RolloutWay;
  static constexpr Choice<RolloutWay> list[] = {{"automatic", automatic},
                                                {"resident", resident},
                                                {"cluster", cluster},
                                                {"grid", grid},
                                                {"stepwise", stepwise}};
};

/// Where and how layers compute. It is not part of a model: a model may run under another one. A Device
/// converts to an Execution with defaults.
struct Execution {
  /// Device on which parameters and tensors lie and operations run.
  Device device = Device::cpu();
  /// Precision that the products of a float model have at least.
  Precision precision = Precision::fp32;
  /// How a GPU carries the state of a recurrence through time.
  RolloutWay rollout = RolloutWay::automatic;
  /// About how many sequences B a batch has: layers choose by it what is fastest. A batch of any size is
  /// computed correctly.
  Index expected_batch = 128;
  /// About how many steps T a sequence has: layers choose by it what is fastest. A sequence of any length is
  /// computed correctly.
  Index expected_length = 1000;

  /// The CPU, in fp32.
  Execution() = default;
  /// A device with a precision and a way through time.
  Execution(Device where, Precision with = Precision::fp32, RolloutWay by = RolloutWay::automatic)
      : device(where), precision(with), rollout(by) {}
};

}  // namespace orthornn
