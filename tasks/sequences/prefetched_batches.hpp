#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "orthornn/core/batch.hpp"

namespace orthornn {

/// Training batches that a thread of its own assembles in memory of the host, up to two steps ahead of the
/// step that was asked for. A batch depends on its step alone, so each has the bits that it would have had
/// without the thread.
class PrefetchedBatches {
 public:
  /// Fills a batch with that of a step. Calls come from one thread.
  using Assemble = std::function<void(std::uint64_t step, Batch& batch)>;

  /// Starts the thread.
  explicit PrefetchedBatches(Assemble assemble);
  PrefetchedBatches(const PrefetchedBatches&) = delete;
  PrefetchedBatches& operator=(const PrefetchedBatches&) = delete;
  /// Waits for the batch that is being assembled, and ends the thread.
  ~PrefetchedBatches();

  /// The batch of a step, valid until the next call: the step after the last one is there or under way,
  /// another one is assembled now. Throws what assembling it threw.
  const Batch& batch(std::uint64_t step);

 private:
  struct Slot {
    Batch batch;
    std::optional<std::uint64_t> step;  // whose batch it has, or whose error
    std::exception_ptr error;
  };

  void assemble_ahead();
  /// The first step from `wanted_` on that is to be assembled.
  std::optional<std::uint64_t> next() const;
  Slot& slot_of(std::uint64_t step) { return slots_[step % slots_.size()]; }

  const Assemble assemble_;
  std::mutex mutex_;
  std::condition_variable asked_, assembled_;
  // The batch in use and the two after it, each step in the slot of its remainder. The thread writes to a
  // slot while its `step` is none.
  std::array<Slot, 3> slots_;
  std::optional<std::uint64_t> wanted_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace orthornn
