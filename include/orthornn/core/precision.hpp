#pragma once

#include "orthornn/core/fields.hpp"

namespace orthornn {

/// Precision that the large products of a float model on a GPU have at least: the products of the recurrence,
/// and the products over all T B columns. A product may be more exact than was asked for: the resident
/// rollout (N <= 192), the rollout of few sequences over a cluster (N <= 512), sequential reflections, and
/// convolutions of frames with kernels of 3 x 3 or 5 x 5 pixels and at most 64 outputs are always fp32, and
/// so are the gradients of maps of at least 2048 vectors of 32 to 4096 numbers to at most 16 numbers. Sums
/// and the states that are kept are float in every precision. U, S and Q are always formed in full precision.
/// The CPU computes everything in full precision.
enum class Precision {
  /// Products of 24-bit significands. A recurrence over the grid takes its matrix and the state as sums of
  /// three bfloat16, which have as many bits, on tensor cores.
  fp32,
  /// Products on tensor cores. A recurrence over a cluster or the grid takes Q and the state as sums of two
  /// bfloat16, which have 16-bit significands: an entry of Q has a relative error of at most 2^-17, and a
  /// linear recurrence keeps norms to 1e-5 a step. Operands of other products are rounded to 11-bit
  /// significands (TensorFloat-32), or are such sums. In a recurrence step by step, that changes norms by
  /// some per cent in 1000 steps.
  tf32,
  /// Products as in tf32, with some operands rounded to bfloat16 (8-bit significands): the state of a
  /// recurrence over a cluster where N > 256, its Q as well where N > 512, both over the grid, and the
  /// operands of a SoftmaxOutput's loss. Rounded states change norms by up to 1.6 % in 1000 steps, as a
  /// random walk; a rounded Q may more than double them.
  bf16,
};
template <>
struct Names<Precision> {
  using enum Precision;
  static constexpr Choice<Precision> list[] = {{"fp32", fp32}, {"tf32", tf32}, {"bf16", bf16}};
};

}  // namespace orthornn
