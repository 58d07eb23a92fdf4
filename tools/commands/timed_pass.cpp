#include "commands/timed_pass.hpp"

#include <algorithm>
#include <utility>

#include "commands/timing.hpp"

namespace orthornn::program {

TimedPass::TimedPass(Device device, bool recordable, PassParts parts)
    : device_(device), recordable_(recordable), parts_(std::move(parts)), forward_(device), both_(device) {}

double TimedPass::time(RepeatedOperations& recorded, const std::function<void()>& work) const {
  restore();
  const double all = milliseconds(device_, [&] {
    for (int i = 0; i < repeats_; ++i) recordable_ ? recorded.run(work) : work();
  });
  return all / repeats_;
}

Sample TimedPass::run() {
  if (!device_.is_cuda()) {
    restore();
    const double forward = milliseconds(device_, parts_.forward);
    return {.forward_ms = forward, .backward_ms = milliseconds(device_, parts_.backward)};
  }
  const double forward = time(forward_, parts_.forward);
  const double both = time(both_, [this] {
    parts_.forward();
    parts_.backward();
  });
  // To start the work and to wait for it takes a GPU some ten microseconds, too many to be part of short
  // times.
  constexpr double enough_ms = 2;
  if (!parts_.restore) repeats_ = static_cast<int>(std::clamp(enough_ms / both, 1.0, 100.0));
  return {.forward_ms = forward, .backward_ms = both - forward};
}

}  // namespace orthornn::program
