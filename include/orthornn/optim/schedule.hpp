#pragma once

#include <cstdint>

#include "orthornn/core/fields.hpp"

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

  /// Throws ValueError, naming the field, for one outside its domain; for cosine also unless n > w, for step
  /// unless k >= 1 and r > 0.
  void validate() const;

  static void fields(auto&& visit) {
    visit("kind", &Schedule::kind, domain::any,
          "Of the learning rates: constant, cosine (to the last step) or step");
    visit("warmup_steps", &Schedule::warmup_steps, domain::not_negative,
          "Steps of a linear rise of the learning rates at first");
    visit("total_steps", &Schedule::total_steps, domain::not_negative, "Training steps in all");
    visit("step_every", &Schedule::step_every, domain::not_negative, "training steps between two drops");
    visit("step_factor", &Schedule::step_factor, domain::share, "what a drop multiplies the rates by");
    visit("final_factor", &Schedule::final_factor, domain::share,
          "share of the rates that remains in the end");
  }
};

template <>
struct Names<Schedule::Kind> {
  using enum Schedule::Kind;
  static constexpr Choice<Schedule::Kind> list[] = {
      {"constant", constant}, {"cosine", cosine}, {"step", step}};
};

}  // namespace orthornn
