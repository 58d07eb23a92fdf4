#pragma once

#include <cstdint>

#include "orthornn/core/fields.hpp"

namespace orthornn {

/// How the learning rates change during training: a factor for each step, by which every rate is multiplied.
struct Schedule {
  /// Course of the factor after the warm-up.
  enum class Kind {
    constant,  ///< The factor stays 1.
    cosine,    ///< The factor falls from 1 to `final_factor` along half a cosine.
    step       ///< The factor drops every `step_every` steps.
  };

  /// Course of the factor after the warm-up.
  Kind kind = Kind::constant;
  /// Number w of steps in which the factor rises linearly at first.
  std::int64_t warmup_steps = 0;
  /// Number n of steps of the whole training, warm-up included; only cosine reads it.
  std::int64_t total_steps = 0;
  /// Number k of steps between two drops; only step reads it.
  std::int64_t step_every = 0;
  /// Factor r of a drop, above 0 and up to 1; only step reads it.
  double step_factor = 0.1;
  /// Factor f, 0 to 1, at which cosine ends and below which step does not fall.
  double final_factor = 0;

  /// Computes the factor of step s = 0, 1, ..:
  ///
  ///     s < w:     (s + 1) / w, so that the first step moves and step w - 1 has the full rate; after that
  ///     constant:  1
  ///     cosine:    f + (1 - f) (1 + cos(pi p)) / 2,  p = min(1, (s - w) / (n - w))
  ///                (Loshchilov and Hutter, "SGDR", ICLR 2017, equation 5, without restarts)
  ///     step:      max(f, r^floor((s - w) / k))
  ///
  /// Throws ValueError for a negative s, and as `validate`.
  double factor(std::int64_t step) const;

  /// Throws ValueError for a field outside its domain, which the message names; for cosine also unless n > w,
  /// for step unless k >= 1 and r > 0.
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
