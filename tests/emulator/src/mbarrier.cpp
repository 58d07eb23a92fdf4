#include "mbarrier.hpp"

#include <string>

#include "emulated_ptx.hpp"
#include "emulator/fail.hpp"
#include "processor.hpp"

namespace orthornn::emulator {
namespace {

constexpr unsigned count_bits = 20, max_count = (1U << count_bits) - 1;

/// What we keep in a barrier's 64 bits, whose meaning CUDA leaves open.
struct State {
  unsigned expected;  // arrivals in each phase
  unsigned pending;   // of them in this one
  std::int64_t
      outstanding;  // bytes that this phase waits for, less those that came before they were expected
  unsigned phase;   // parity of the current one
};

/// In the upper two bits, to tell barriers from memory never initialised, which is all ones.
constexpr std::uint64_t valid = 1;

State load(const std::uint64_t* barrier, std::source_location where) {
  if (reinterpret_cast<std::uintptr_t>(barrier) % 8 != 0)
    fail("mbarrier that is not aligned to 8 bytes", where);
  const std::uint64_t word = *barrier;
  if (word >> 62 != valid) fail("mbarrier that was not initialised, or has been overwritten", where);
  return {.expected = static_cast<unsigned>(word) & max_count,
          .pending = static_cast<unsigned>(word >> count_bits) & max_count,
          .outstanding = static_cast<std::int64_t>(word >> 2 * count_bits & (2 * max_count + 1)) - max_count,
          .phase = static_cast<unsigned>(word >> 61) & 1U};
}

void store(std::uint64_t* barrier, State state) {
  *barrier = valid << 62 | std::uint64_t{state.phase} << 61 |
             static_cast<std::uint64_t>(state.outstanding + max_count) << 2 * count_bits |
             std::uint64_t{state.pending} << count_bits | state.expected;
}

/// Others' barriers are reached by bulk copies alone.
void check_own(const std::uint64_t* barrier, std::source_location where) {
  const SharedMemory& memory = processor().shared_memory();
  const auto offset = reinterpret_cast<const unsigned char*>(barrier) - dynamic_shared_memory();
  if (offset < 0 || static_cast<std::size_t>(offset) + sizeof(*barrier) > memory.size()) {
    if (processor().cluster_size() > 1)
      fail("mbarrier outside of the block's own dynamic shared memory", where);
  }
}

}  // namespace

void mbarrier_count(std::uint64_t* barrier, unsigned arrivals, int transactions, std::source_location where) {
  State state = load(barrier, where);
  if (state.pending < arrivals) fail("more arrivals at an mbarrier than its count in one phase", where);
  state.pending -= arrivals;
  state.outstanding -= transactions;
  if (state.outstanding < -std::int64_t{max_count} || state.outstanding > std::int64_t{max_count}) {
    fail("mbarrier that counts 2^20 bytes or more", where);
  }
  const bool complete = state.pending == 0 && state.outstanding == 0;
  if (complete) {
    state.pending = state.expected;
    state.phase ^= 1;
  }
  store(barrier, state);
  if (complete) processor().release_from_mbarrier(barrier);
}

void Processor::wait_at_mbarrier(std::uint64_t* barrier, std::source_location where) {
  at_mbarrier_[barrier].push_back(current_);
  block("mbarrier_wait", where);
}

void Processor::release_from_mbarrier(std::uint64_t* barrier) {
  const auto waiting = at_mbarrier_.find(barrier);
  if (waiting == at_mbarrier_.end()) return;
  for (Thread* thread : waiting->second) make_ready(*thread);
  at_mbarrier_.erase(waiting);
}

}  // namespace orthornn::emulator

namespace orthornn::ptx {

using emulator::processor;

void mbarrier_initialize(std::uint64_t* barrier, unsigned count, std::source_location where) {
  emulator::check_own(barrier, where);
  if (reinterpret_cast<std::uintptr_t>(barrier) % 8 != 0) {
    emulator::fail("mbarrier that is not aligned to 8 bytes", where);
  }
  if (count == 0 || count > emulator::max_count) {
    emulator::fail("mbarrier for " + std::to_string(count) + " arrivals", where);
  }
  if (processor().awaited(barrier)) emulator::fail("initialises an mbarrier at which threads wait", where);
  emulator::store(barrier, {.expected = count, .pending = count, .outstanding = 0, .phase = 0});
}

void mbarrier_arrive_expect(std::uint64_t* barrier, unsigned bytes, std::source_location where) {
  emulator::perhaps_yield();
  emulator::check_own(barrier, where);
  if (bytes > emulator::max_count) emulator::fail("mbarrier that counts 2^20 bytes or more", where);
  emulator::mbarrier_count(barrier, 1, -static_cast<int>(bytes), where);
}

void mbarrier_wait(std::uint64_t* barrier, unsigned parity, std::source_location where) {
  emulator::perhaps_yield();
  emulator::check_own(barrier, where);
  if (parity > 1) emulator::fail("parity " + std::to_string(parity) + " of an mbarrier", where);
  while (emulator::load(barrier, where).phase == parity) processor().wait_at_mbarrier(barrier, where);
}

}  // namespace orthornn::ptx
