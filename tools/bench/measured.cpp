#include "bench/measured.hpp"

#include <algorithm>
#include <utility>

#include "orthornn/core/repeated_operations.hpp"
#include "support/statistics.hpp"

namespace orthornn::program {
namespace {

struct Sample {
  double forward_ms, backward_ms;
};

/// The CPU does one part after the other and is timed at both. On a GPU a wait between the two would be part
/// of neither: there forward is timed alone, then both as one piece, as a training step has them, and
/// backward is the difference. What is short and needs no restoring is done over and over between two waits.
class TimedPass {
 public:
  TimedPass(Device device, const Pass& pass)
      : device_(device), pass_(pass), forward_(device), both_(device) {}

  Sample run() {
    if (!device_.is_cuda()) {
      restore();
      const double forward = milliseconds(device_, pass_.forward);
      return {forward, pass_.backward ? milliseconds(device_, pass_.backward) : 0};
    }
    const double forward = time(forward_, pass_.forward);
    double both = forward;
    if (pass_.backward) {
      both = time(both_, [this] {
        pass_.forward();
        pass_.backward();
      });
    }
    // To start the work and to wait for it takes a GPU some ten microseconds, too many to be part of short
    // times.
    constexpr double enough_ms = 2;
    if (!pass_.restore) repeats_ = static_cast<int>(std::clamp(enough_ms / both, 1.0, 100.0));
    return {forward, both - forward};
  }

 private:
  void restore() const {
    if (pass_.restore) pass_.restore();
  }
  double time(RepeatedOperations& recorded, const std::function<void()>& work) const {
    restore();
    const double all = milliseconds(device_, [&] {
      for (int i = 0; i < repeats_; ++i) pass_.recordable ? recorded.run(work) : work();
    });
    return all / repeats_;
  }

  Device device_;
  const Pass& pass_;
  int repeats_ = 1;
  RepeatedOperations forward_;
  RepeatedOperations both_;
};

}  // namespace

void Samples::add_to(Json& json) const {
  json["forward_ms"] = median(forward_ms);
  json["backward_ms"] = median(backward_ms);
  json["total_ms"] = median(total_ms);
  json["forward_samples_ms"] = forward_ms;
  json["backward_samples_ms"] = backward_ms;
  json["total_samples_ms"] = total_ms;
}

Samples take_samples(Device device, const Pass& pass, Index count, const std::function<double()>& reference,
                     double limit) {
  TimedPass timed(device, pass);
  Samples samples;
  const auto add = [&](const Sample& sample) {
    samples.forward_ms.push_back(sample.forward_ms);
    samples.backward_ms.push_back(sample.backward_ms);
    samples.total_ms.push_back(sample.forward_ms + sample.backward_ms);
  };
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto over = [&] { return std::chrono::duration<double>(Clock::now() - start).count() >= limit; };
  for (int i = 0; i < warm_up_runs(device); ++i) {
    const Sample last = timed.run();
    if (!over()) continue;
    add(last);
    samples.warmed_up = false;
    return samples;
  }
  if (reference) reference();
  do {
    add(timed.run());
    if (reference) samples.reference.push_back(reference());
  } while (std::cmp_less(samples.total_ms.size(), count) && !over());
  return samples;
}

}  // namespace orthornn::program
