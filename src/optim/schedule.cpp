#include "orthornn/optim/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "orthornn/core/error.hpp"

namespace orthornn {

double Schedule::factor(std::int64_t step) const {
  validate();
  if (step < 0) throw ValueError(fmt::format("schedule: step is {}; steps count from 0", step));
  if (step < warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  const std::int64_t past_warmup = step - warmup_steps;
  switch (kind) {
    case Kind::constant:
      break;
    case Kind::cosine: {
      const double progress =
          static_cast<double>(past_warmup) / static_cast<double>(total_steps - warmup_steps);
      // At the end cos gives -1 exactly, and the factor is final_factor exactly.
      return final_factor +
             (1 - final_factor) * (1 + std::cos(std::numbers::pi * std::min(1.0, progress))) / 2;
    }
    case Kind::step:
      return std::max(final_factor, std::pow(step_factor, static_cast<double>(past_warmup / step_every)));
  }
  return 1;
}

void Schedule::validate() const {
  check_fields("schedule", *this);
  if (kind == Kind::cosine && total_steps <= warmup_steps) {
    throw ValueError(fmt::format("schedule: total_steps is {}; cosine expects more than the {} warmup_steps",
                                 total_steps, warmup_steps));
  }
  if (kind == Kind::step && step_every < 1) {
    throw ValueError(fmt::format("schedule: step_every is {}; expected 1 or more", step_every));
  }
  if (kind == Kind::step && step_factor == 0) {
    throw ValueError("schedule: step_factor is 0; expected a number in (0, 1]");
  }
}

}  // namespace orthornn
