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
  if (warmup_steps < 0) {
    throw ValueError(fmt::format("schedule: warmup_steps is {}; expected 0 or more", warmup_steps));
  }
  if (!(final_factor >= 0 && final_factor <= 1)) {
    throw ValueError(fmt::format("schedule: final_factor is {}; expected a number in [0, 1]", final_factor));
  }
  if (kind == Kind::cosine && total_steps <= warmup_steps) {
    throw ValueError(fmt::format("schedule: total_steps is {}; cosine expects more than the {} warmup_steps",
                                 total_steps, warmup_steps));
  }
  if (kind == Kind::step && step_every < 1) {
    throw ValueError(fmt::format("schedule: step_every is {}; expected 1 or more", step_every));
  }
  if (kind == Kind::step && !(step_factor > 0 && step_factor <= 1)) {
    throw ValueError(fmt::format("schedule: step_factor is {}; expected a number in (0, 1]", step_factor));
  }
}

std::string name_of(Schedule::Kind kind) {
  switch (kind) {
    case Schedule::Kind::constant:
      return "constant";
    case Schedule::Kind::cosine:
      return "cosine";
    case Schedule::Kind::step:
      return "step";
  }
  return {};
}

Schedule::Kind parse_schedule(const std::string& name) {
  using enum Schedule::Kind;
  for (const Schedule::Kind kind : {constant, cosine, step}) {
    if (name == name_of(kind)) return kind;
  }
  throw ValueError(fmt::format("unknown schedule '{}'; expected constant, cosine or step", name));
}

}  // namespace orthornn
