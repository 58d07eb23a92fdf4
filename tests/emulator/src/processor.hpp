#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <source_location>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/launch.hpp"
#include "emulator/thread.hpp"
#include "fiber.hpp"
#include "shared_memory.hpp"

namespace orthornn::emulator {

struct Block;

struct Thread {
  uint3 index = {};
  unsigned rank = 0;  // in the block
  Block* block = nullptr;
  Fiber* fiber = nullptr;  // none before it starts
  bool exited = false;

  // What it waits for; no operation while it runs or could run.
  const char* operation = nullptr;
  std::source_location where = {};

  // cp.async: copies begun and not yet performed, and the group to which new ones belong.
  struct Copy {
    void* to;
    const void* from;
    unsigned bytes;
    unsigned group;
  };
  std::vector<Copy> copies;
  unsigned copy_group = 0;
};

/// Lanes of a warp that have arrived at an operation which the others of the mask have not reached yet.
struct Gathering {
  unsigned mask = 0;
  unsigned arrived = 0;
  const char* operation = nullptr;
  void* arguments[32] = {};
};

struct Warp {
  Thread* first = nullptr;
  unsigned present = 0;  // lanes that exist and have not exited
  std::vector<Gathering> gatherings;
};

struct Block {
  uint3 index = {};
  unsigned rank = 0;  // in the cluster
  Thread* threads = nullptr;
  unsigned live = 0;
  bool started = false;
  std::vector<Warp> warps;
  std::vector<Thread*> at_barrier;
};

/// A bulk copy into the shared memory of a block of the cluster.
struct BulkCopy {
  unsigned char* to;
  const unsigned char* from;
  unsigned bytes;
  std::uint64_t* barrier;
  Block* sender;
  Block* receiver;
  std::source_location where;
};

/// Runs kernels: one cluster after another, the threads of a cluster by turns on one OS thread. A thread runs
/// until it has to wait; threads that could run do so in the order in which they became able to, or in a
/// random one if ORTHORNN_EMULATED_SEED is set. A launch without clusters is one of clusters of one block.
class Processor {
 public:
  void run(const Launch& launch);

  /// Null when no kernel runs.
  Thread* current() { return current_; }
  const Launch& launch() const { return *launch_; }
  SharedMemory& shared_memory() { return shared_memory_; }
  unsigned cluster_size() const { return cluster_size_; }
  /// For an access to its shared memory: the block must have started and not exited.
  Block& accessible_block(unsigned rank, const char* operation);

  void synchronize_block(std::source_location where);
  void warp_collective(unsigned mask, const char* operation, void* argument, Operate* operate,
                       std::source_location where);
  void synchronize_cluster(std::source_location where);

  void begin_bulk_copy(const BulkCopy& copy) { bulk_copies_.push_back(copy); }
  void wait_at_mbarrier(std::uint64_t* barrier, std::source_location where);
  void release_from_mbarrier(std::uint64_t* barrier);
  bool awaited(std::uint64_t* barrier) const { return at_mbarrier_.contains(barrier); }

  void yield();
  void perhaps_yield();
  /// Less than `bound`; zero, unless a seed was given.
  unsigned random(unsigned bound);

  bool stack_overflowed_at(const void* address) const;
  std::string describe_current() const;

 private:
  static void fiber_main();

  void begin(const Launch& launch);
  void begin_cluster(uint3 first);
  void exit_thread();
  void exit_block(Block& block);

  void make_ready(Thread& thread) { ready_[ready_end_++ & ready_mask_] = &thread; }
  /// The thread to run next; none if all have exited.
  Thread* next();
  void enter(Thread& thread);
  void block(const char* operation, std::source_location where);
  void complete_bulk_copy(std::size_t index);
  void complete_cluster_barrier();
  [[noreturn]] void report_deadlock() const;

  const Launch* launch_ = nullptr;
  unsigned cluster_size_ = 1;
  unsigned block_size_ = 0;
  std::vector<Thread> threads_;
  std::vector<Block> blocks_;
  SharedMemory shared_memory_;
  Thread* current_ = nullptr;
  unsigned live_ = 0;

  // The threads that can run, in a ring large enough for all of them.
  std::vector<Thread*> ready_;
  std::size_t ready_mask_ = 0, ready_begin_ = 0, ready_end_ = 0;
  std::uint64_t random_state_ = 0;  // zero: no seed

  Fiber host_;
  std::deque<Fiber> fibers_;
  std::vector<Fiber*> idle_fibers_;

  std::vector<Thread*> at_cluster_barrier_;
  std::unordered_map<std::uint64_t*, std::vector<Thread*>> at_mbarrier_;
  std::vector<BulkCopy> bulk_copies_;
};

/// The one on which all kernels run.
Processor& processor();

}  // namespace orthornn::emulator
