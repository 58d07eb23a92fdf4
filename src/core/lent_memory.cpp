#include "core/lent_memory.hpp"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace orthornn {
namespace {

thread_local LentMemory* innermost = nullptr;
/// The same, and never paused: a tensor may end during a pause.
thread_local LentMemory* last_made = nullptr;

}  // namespace

LentMemory::LentMemory(Device device, void* memory, std::size_t bytes)
    : device_(device),
      planned_(false),
      begin_(reinterpret_cast<std::uintptr_t>(memory)),
      next_(padded(begin_)),
      end_(begin_ + bytes),
      before_(last_made) {
  innermost = last_made = this;
}

LentMemory::LentMemory(Device device, Planned)
    : device_(device),
      planned_(true),
      // No program has memory in the upper half of the addresses.
      begin_((std::numeric_limits<std::uintptr_t>::max() / 2 + 1)),
      next_(begin_),
      end_(std::numeric_limits<std::uintptr_t>::max()),
      before_(last_made) {
  innermost = last_made = this;
}

LentMemory::~LentMemory() { innermost = last_made = before_; }

std::size_t LentMemory::needed() const {
  const std::size_t taken = next_ - padded(begin_);
  return taken == 0 ? 0 : taken + alignment - 1;
}

LentMemory* LentMemory::of(Device device) {
  return innermost != nullptr && innermost->device_ == device ? innermost : nullptr;
}

void* LentMemory::take(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::uintptr_t place = next_;
  // The gap behind the last tensor need not be there.
  if (place > end_ || bytes > end_ - place) {
    throw std::logic_error(
        fmt::format("an operation needs {} bytes of workspace at least, and its size was "
                    "computed as {}; please report this as a bug of orthornn",
                    needed() + bytes, end_ - begin_));
  }
  next_ += padded(bytes);
  return reinterpret_cast<void*>(place);
}

bool LentMemory::lends(const void* address) {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  for (const LentMemory* memory = last_made; memory != nullptr; memory = memory->before_) {
    if (place >= memory->begin_ && place < memory->end_) return true;
  }
  return false;
}

LentMemory::Pause::Pause() : before_(innermost) { innermost = nullptr; }
LentMemory::Pause::~Pause() { innermost = before_; }

}  // namespace orthornn
