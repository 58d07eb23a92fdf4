#pragma once

#include <string>

namespace orthornn {

/// Arithmetic of the large products of a float model on a GPU, at least: the recurrence, and the products
/// over all of T B columns. A product may be exacter than was asked for: the resident rollout (N <= 192) and
/// sequential reflections are fp32 always. Sums are float in every case, and so are the states that are kept.
/// U, S and Q are always formed in full precision, and the CPU knows nothing else.
enum class Precision {
  /// Products of 24-bit significands.
  fp32,
  /// Operands rounded to 11-bit significands (TensorFloat-32), on tensor cores.
  tf32,
  /// Operands of a recurrence over a cluster rounded to 8-bit significands (bfloat16); other products as
  /// tf32.
  bf16,
};

std::string name_of(Precision precision);
/// Throws ValueError naming the known ones.
Precision parse_precision(const std::string& name);

}  // namespace orthornn
