#pragma once
// How rows of benchmarks are timed.

#include <chrono>
#include <functional>
#include <limits>
#include <vector>

#include "core/checked_json.hpp"
#include "orthornn/core/device.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::program {

/// Milliseconds until the device has done what `work()` starts there, and all that was started before is
/// done.
template <class Work>
double milliseconds(Device device, const Work& work) {
  synchronize(device);
  const auto start = std::chrono::steady_clock::now();
  work();
  synchronize(device);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Runs before those that count: the first takes memory and warms the caches; on a GPU the next are recorded.
inline int warm_up_runs(Device device) { return device.is_cuda() ? 3 : 1; }

/// A computation and its way back, to be timed again and again.
struct Pass {
  std::function<void()> forward = nullptr;
  /// Null where the forward alone is timed.
  std::function<void()> backward = nullptr;
  /// Puts back what the other two overwrite; not timed. Null where they overwrite nothing that they read.
  std::function<void()> restore = nullptr;
  /// Whether a GPU may record the other two. They are one launch by the third run.
  bool recordable = true;
};

/// A row of a benchmark, ready to be timed. The functions own the tensors that they compute with.
struct Measured {
  /// What it is: the beginning of its JSON.
  Json fields = Json::object();
  /// A row without a forward is not timed.
  Pass pass = {};
  /// Operations of a pass; 0 where a rate would mean nothing.
  double flops = 0;
  /// Steps of a pass, one after the other; 0 where it has no such steps.
  Index steps = 0;
  /// Returns the GFLOP/s of a product to compare with; null without one.
  std::function<double()> reference = nullptr;
  /// Returns what else its JSON says after a run. Recurrences say how the state is carried, "rollout", and
  /// max |I - A^T A| of the AppliedMatrix A, "orthogonality_error".
  std::function<Json()> details = [] { return Json::object(); };
};

/// Times of one run or more.
struct Samples {
  std::vector<double> forward_ms = {}, backward_ms = {}, total_ms = {};
  /// GFLOP/s of a product to compare with, one for each run; empty without such a product.
  std::vector<double> reference = {};
  /// False where warming up took the whole time limit, and its last run is what was measured.
  bool warmed_up = true;

  /// Adds the times and their medians.
  void add_to(Json& json) const;
};

/// Times `count` runs after those that warm up. `reference` is called right after each run, so that both see
/// the same machine when its speed drifts. After `limit` seconds no run begins, but one is measured in any
/// case.
Samples take_samples(Device device, const Pass& pass, Index count,
                     const std::function<double()>& reference = nullptr,
                     double limit = std::numeric_limits<double>::infinity());

}  // namespace orthornn::program
