#pragma once

#include <cstdint>
#include <string>

namespace orthornn {

/// How the learning rates change during training: what every rate is multiplied with at a step.
struct Schedule {
  enum class Kind { constant, cosine, step };

  Kind kind = Kind::constant;
  /// Steps w of a linear rise before everything else.
  std::int64_t warmup_steps = 0;
  /// Steps n of the whole training, warm-up included; only cosine reads it.
  std::int64_t total_steps = 0;
  /// Steps k between two drops, and what each multiplies with (r); only step reads them.
  std::int64_t step_every = 0;
  double step_factor = 0.1;
  /// Where cosine ends, and what step does not fall below (f).
  double final_factor = 0;

  /// Factor of step s = 0, 1, ..:
  ///   s < w:     (s + 1) / w, so that the first step moves and step w - 1 has the full rate; after that
  ///   constant:  1
  ///   cosine:    f + (1 - f) (1 + cos(pi p)) / 2,  p = min(1, (s - w) / (n - w))
  ///              (Loshchilov and Hutter, "SGDR", ICLR 2017, equation 5, without restarts)
  ///   step:      max(f, r^floor((s - w) / k))
  /// Throws ValueError for a negative s, and as `validate`.
  double factor(std::int64_t step) const;

  /// Throws ValueError, naming the field, unless w >= 0 and f lies in [0, 1]; for cosine also n > w; for step
  /// also k >= 1 and r in (0, 1].
  void validate() const;
};

std::string name_of(Schedule::Kind kind);
/// Throws ValueError naming the known ones.
Schedule::Kind parse_schedule(const std::string& name);

}  // namespace orthornn
