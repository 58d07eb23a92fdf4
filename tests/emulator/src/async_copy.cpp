#include <algorithm>
#include <cstring>

#include "emulated_ptx.hpp"
#include "emulator/fail.hpp"
#include "processor.hpp"

namespace orthornn::ptx {

using emulator::processor;
using emulator::Thread;

namespace {

/// Performs the thread's copies of all groups before `end`.
void perform_copies(Thread& thread, unsigned end) {
  std::erase_if(thread.copies, [end](const Thread::Copy& copy) {
    if (copy.group >= end) return false;
    std::memcpy(copy.to, copy.from, copy.bytes);
    return true;
  });
}

}  // namespace

void begin_copy(void* shared, const void* global, unsigned bytes, std::source_location where) {
  const auto misaligned = [bytes](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % bytes != 0;
  };
  if (misaligned(shared) || misaligned(global))
    emulator::fail("cp_async of what is not aligned to its size", where);
  Thread& thread = *processor().current();
  thread.copies.push_back({shared, global, bytes, thread.copy_group});
}

void cp_async_commit() {
  Thread& thread = *processor().current();
  ++thread.copy_group;
  // A copy may also be done at once.
  if (processor().random(2) == 1) perform_copies(thread, thread.copy_group);
}

void cp_async_wait_for(unsigned pending) {
  Thread& thread = *processor().current();
  if (thread.copy_group > pending) perform_copies(thread, thread.copy_group - pending);
}

}  // namespace orthornn::ptx
