#pragma once

#include "orthornn/core/fields.hpp"

namespace orthornn {

/// Arithmetic of the large products of a float model on a GPU, at least: the recurrence, and the products
/// over all of T B columns. A product may be exacter than was asked for: the resident rollout (N <= 192) and
/// sequential reflections are fp32 always. Sums are float in every case, and so are the states that are kept.
/// U, S and Q are always formed in full precision, and the CPU knows nothing else.
enum class Precision {
  /// Products of 24-bit significands.
  fp32,
  /// On tensor cores. A recurrence over a cluster takes Q and the state as sums of two bfloat16, which have
  /// 16-bit significands: an entry of Q is off by 2^-17 of itself at most, and a linear recurrence keeps
  /// norms to 1e-5 a step. Operands of other products are rounded to 11-bit significands (TensorFloat-32).
  /// In a recurrence step by step, that changes norms by some per cent in 1000 steps.
  tf32,
  /// As tf32, but rounded to bfloat16 (8-bit significands) are the state of a recurrence over a cluster where
  /// N > 256, its Q as well where N > 512, and the operands of a SoftmaxOutput's loss. Rounded states change
  /// norms by up to 1.6 % in 1000 steps, as a random walk; a rounded Q may double them and more.
  bf16,
};
template <>
struct Names<Precision> {
  using enum Precision;
  static constexpr Choice<Precision> list[] = {{"fp32", fp32}, {"tf32", tf32}, {"bf16", bf16}};
};

}  // namespace orthornn
