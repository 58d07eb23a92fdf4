#include "tasks/sequences/prefetched_batches.hpp"

#include <utility>

#include "core/signals_blocked.hpp"

namespace orthornn {

PrefetchedBatches::PrefetchedBatches(Assemble assemble) : assemble_(std::move(assemble)) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { assemble_ahead(); });
}

PrefetchedBatches::~PrefetchedBatches() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  asked_.notify_one();
  thread_.join();
}

const Batch& PrefetchedBatches::batch(std::uint64_t step) {
  std::unique_lock lock(mutex_);
  Slot& slot = slot_of(step);
  // What failed once is tried again.
  if (slot.step == step && slot.error) slot.step.reset();
  wanted_ = step;
  asked_.notify_one();
  assembled_.wait(lock, [&] { return slot.step == step; });
  if (slot.error) std::rethrow_exception(slot.error);
  return slot.batch;
}

std::optional<std::uint64_t> PrefetchedBatches::next() const {
  for (std::uint64_t i = 0; wanted_ && i < slots_.size(); ++i) {
    const std::uint64_t step = *wanted_ + i;
    if (slots_[step % slots_.size()].step != step) return step;
  }
  return std::nullopt;
}

void PrefetchedBatches::assemble_ahead() {
  std::unique_lock lock(mutex_);
  while (true) {
    asked_.wait(lock, [&] { return over_ || next(); });
    if (over_) return;
    const std::uint64_t step = *next();
    Slot& slot = slot_of(step);
    slot.step.reset();
    lock.unlock();
    std::exception_ptr error;
    try {
      assemble_(step, slot.batch);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot.step = step;
    slot.error = std::move(error);
    assembled_.notify_one();
  }
}

}  // namespace orthornn
