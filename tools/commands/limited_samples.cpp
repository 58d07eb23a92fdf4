#include "commands/limited_samples.hpp"

#include <chrono>
#include <cstddef>

namespace orthornn::program {

LimitedSamples take_samples(Device device, const std::function<Sample()>& run, int samples, double limit) {
  LimitedSamples taken;
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto over = [&] { return std::chrono::duration<double>(Clock::now() - start).count() >= limit; };
  for (int i = 0; i < warm_up_runs(device); ++i) {
    const Sample first = run();
    if (!over()) continue;
    taken.add(first);
    taken.warmed_up = false;
    return taken;
  }
  do {
    taken.add(run());
  } while (taken.total.size() < static_cast<std::size_t>(samples) && !over());
  return taken;
}

}  // namespace orthornn::program
