#include "tasks/sequences/prefetched_batches.hpp"

#include <utility>

#include "core/signals_blocked.hpp"

namespace orthornn {

PrefetchedBatches::PrefetchedBatches(Assemble assemble) : assemble_(std::move(assemble)) {
  const SignalsBlocked blocked;
  for (std::size_t i = 0; i < thread_count; ++i)
    threads_[i] = std::jthread([this, i](const std::stop_token& stop) { assemble_ahead(i, stop); });
}

PrefetchedBatches::~PrefetchedBatches() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

const Batch& PrefetchedBatches::batch(std::uint64_t step) {
  std::unique_lock lock(mutex_);
  Slot& slot = slot_of(step);
  // What failed once is tried again.
  if (slot.step == step && slot.error) slot.step.reset();
  wanted_ = step;
  asked_.notify_all();
  assembled_.wait(lock, [&] { return slot.step == step; });
  if (slot.error) std::rethrow_exception(slot.error);
  return slot.batch;
}

std::optional<std::uint64_t> PrefetchedBatches::next(std::size_t thread) const {
  for (std::uint64_t i = 0; wanted_ && i < slots_.size(); ++i) {
    const std::uint64_t step = *wanted_ + i;
    const Slot& slot = slots_[step % slots_.size()];
    if (step % thread_count == thread && slot.step != step && !slot.is_written) return step;
  }
  return std::nullopt;
}

void PrefetchedBatches::assemble_ahead(std::size_t thread, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (asked_.wait(lock, stop, [&] { return next(thread).has_value(); }) && !stop.stop_requested()) {
    const std::uint64_t step = *next(thread);
    Slot& slot = slot_of(step);
    slot.step.reset();
    slot.is_written = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      assemble_(thread, step, slot.batch);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot.step = step;
    slot.error = std::move(error);
    slot.is_written = false;
    assembled_.notify_one();
    asked_.notify_all();  // a step may have waited for this slot
  }
}

}  // namespace orthornn
