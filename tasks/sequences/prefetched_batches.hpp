#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "orthornn/core/batch.hpp"

namespace orthornn {

/// Training batches that threads of its own assemble in memory of the host, up to two steps ahead of the step
/// that was asked for. A batch depends on its step alone, so each has the bits that it would have had without
/// the threads.
class PrefetchedBatches {
 public:
  /// One for each step ahead: a thread alone is slower than the steps of a small model on a GPU.
  static constexpr std::size_t thread_count = 2;
  /// Fills a batch with that of a step. Each thread calls it with its number.
  using Assemble = std::function<void(std::size_t thread, std::uint64_t step, Batch& batch)>;

  /// Starts the threads.
  explicit PrefetchedBatches(Assemble assemble);
  PrefetchedBatches(const PrefetchedBatches&) = delete;
  PrefetchedBatches& operator=(const PrefetchedBatches&) = delete;
  /// Waits for the batches that are being assembled, and ends the threads.
  ~PrefetchedBatches();

  /// The batch of a step, valid until the next call: the step after the last one is there or under way,
  /// another one is assembled now. Throws what assembling it threw.
  const Batch& batch(std::uint64_t step);

 private:
  struct Slot {
    Batch batch;
    std::optional<std::uint64_t> step;  // whose batch it has, or whose error
    std::exception_ptr error;
    bool is_written = false;  // whether a thread is assembling its batch
  };

  void assemble_ahead(std::size_t thread, const std::stop_token& stop);
  /// The first step from `wanted_` on that the thread is to assemble, and whose slot no thread writes to. The
  /// threads take turns, so that each has its memory after the first steps.
  std::optional<std::uint64_t> next(std::size_t thread) const;
  Slot& slot_of(std::uint64_t step) { return slots_[step % slots_.size()]; }

  const Assemble assemble_;
  std::mutex mutex_;
  std::condition_variable_any asked_, assembled_;
  // The batch in use and those after it, each step in the slot of its remainder.
  std::array<Slot, 1 + thread_count> slots_;
  std::optional<std::uint64_t> wanted_;
  std::array<std::jthread, thread_count> threads_;  // the last member: they end before the others do
};

}  // namespace orthornn
