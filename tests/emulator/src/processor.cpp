#include "processor.hpp"

#include <bit>
#include <cstdlib>
#include <utility>

#include "emulator/fail.hpp"

uint3 threadIdx = {};
uint3 blockIdx = {};
dim3 blockDim;
dim3 gridDim;

namespace orthornn::emulator {
namespace {

unsigned volume(dim3 d) { return d.x * d.y * d.z; }

/// The `rank`-th index within `extent`, x first.
uint3 unravel(unsigned rank, dim3 extent) {
  return {rank % extent.x, rank / extent.x % extent.y, rank / extent.x / extent.y};
}

}  // namespace

Processor& processor() {
  static Processor instance;
  return instance;
}

void Processor::run(const Launch& launch) {
  if (launch_ != nullptr) fail("a kernel was launched while another ran");
  begin(launch);
  const dim3 c = launch.cluster;
  for (unsigned z = 0; z < launch.grid.z; z += c.z) {
    for (unsigned y = 0; y < launch.grid.y; y += c.y) {
      for (unsigned x = 0; x < launch.grid.x; x += c.x) {
        begin_cluster({x, y, z});
        Thread& first = *next();
        if (idle_fibers_.empty()) idle_fibers_.push_back(&fibers_.emplace_back(fiber_main));
        first.fiber = idle_fibers_.back();
        idle_fibers_.pop_back();
        enter(first);
        host_.switch_to(*first.fiber);
      }
    }
  }
  launch_ = nullptr;
}

void Processor::begin(const Launch& launch) {
  launch_ = &launch;
  cluster_size_ = volume(launch.cluster);
  block_size_ = volume(launch.block);
  blockDim = launch.block;
  gridDim = launch.grid;
  shared_memory_.resize(launch.shared_bytes);
  const std::size_t count = std::size_t{cluster_size_} * block_size_;
  if (threads_.size() < count) {
    threads_.resize(count);
    ready_.resize(std::bit_ceil(count));
    ready_mask_ = ready_.size() - 1;
  }
  if (blocks_.size() < cluster_size_) blocks_.resize(cluster_size_);
  const char* seed = std::getenv("ORTHORNN_EMULATED_SEED");
  // Whatever the seed, its state is not zero, which would stay so.
  random_state_ = seed == nullptr ? 0 : (std::strtoull(seed, nullptr, 10) + 1) * 0x9E3779B97F4A7C15U | 1;
}

void Processor::begin_cluster(uint3 first) {
  live_ = cluster_size_ * block_size_;
  ready_begin_ = ready_end_ = 0;
  for (unsigned rank = 0; rank < cluster_size_; ++rank) {
    Block& block = blocks_[rank];
    const uint3 offset = unravel(rank, launch_->cluster);
    block.index = {first.x + offset.x, first.y + offset.y, first.z + offset.z};
    block.rank = rank;
    block.threads = &threads_[std::size_t{rank} * block_size_];
    block.live = block_size_;
    block.started = false;
    block.warps.resize((block_size_ + 31) / 32);
    uint3 index = {};
    for (unsigned i = 0; i < block_size_; ++i) {
      Thread& thread = block.threads[i];
      thread.index = index;
      thread.rank = i;
      thread.block = &block;
      thread.fiber = nullptr;
      thread.exited = false;
      thread.operation = nullptr;
      thread.copy_group = 0;
      make_ready(thread);
      if (++index.x == launch_->block.x) {
        index.x = 0;
        if (++index.y == launch_->block.y) {
          index.y = 0;
          ++index.z;
        }
      }
    }
    for (std::size_t w = 0; w < block.warps.size(); ++w) {
      block.warps[w].first = block.threads + 32 * w;
      const std::size_t lanes = block_size_ - 32 * w;
      block.warps[w].present = lanes >= 32 ? 0xFFFFFFFFU : (1U << lanes) - 1;
    }
    shared_memory_.prepare(rank);
  }
}

void Processor::fiber_main() {
  Processor& p = processor();
  for (;;) {
    Thread& thread = *p.current_;
    p.launch_->thread();
    p.exit_thread();
    Thread* next = p.next();
    if (next != nullptr && next->fiber == nullptr) {  // has not begun: no need to leave this stack
      next->fiber = thread.fiber;
      p.enter(*next);
      continue;
    }
    Fiber& mine = *thread.fiber;
    p.idle_fibers_.push_back(&mine);
    if (next != nullptr) {
      p.enter(*next);
      mine.switch_to(*next->fiber);
    } else {
      p.current_ = nullptr;
      mine.switch_to(p.host_);
    }
  }
}

void Processor::enter(Thread& thread) {
  Block& block = *thread.block;
  if (!block.started) [[unlikely]] {
    block.started = true;
    shared_memory_.allow_access(block.rank);
  }
  current_ = &thread;
  threadIdx = thread.index;
  blockIdx = block.index;
}

Thread* Processor::next() {
  if (random_state_ != 0 && !bulk_copies_.empty() && random(8) == 0) {
    complete_bulk_copy(random(static_cast<unsigned>(bulk_copies_.size())));
  }
  // Otherwise copies take as long as anything else can go on: who does not wait for them, does not see them.
  while (ready_begin_ == ready_end_ && !bulk_copies_.empty()) complete_bulk_copy(0);
  if (ready_begin_ == ready_end_) {
    if (live_ != 0) report_deadlock();
    return nullptr;
  }
  if (random_state_ != 0) {
    const unsigned choice = random(static_cast<unsigned>(ready_end_ - ready_begin_));
    std::swap(ready_[ready_begin_ & ready_mask_], ready_[(ready_begin_ + choice) & ready_mask_]);
  }
  return ready_[ready_begin_++ & ready_mask_];
}

void Processor::block(const char* operation, std::source_location where) {
  Thread& me = *current_;
  me.operation = operation;
  me.where = where;
  Thread* other = next();
  if (other != &me) {
    if (other->fiber == nullptr) {
      if (idle_fibers_.empty()) idle_fibers_.push_back(&fibers_.emplace_back(fiber_main));
      other->fiber = idle_fibers_.back();
      idle_fibers_.pop_back();
    }
    enter(*other);
    me.fiber->switch_to(*other->fiber);
  }
  me.operation = nullptr;
}

void Processor::yield() {
  make_ready(*current_);
  block("yield", std::source_location::current());
}

void Processor::perhaps_yield() {
  if (random_state_ != 0 && random(4) == 0) yield();
}

unsigned Processor::random(unsigned bound) {
  random_state_ ^= random_state_ << 13;
  random_state_ ^= random_state_ >> 7;
  random_state_ ^= random_state_ << 17;
  return static_cast<unsigned>(random_state_ >> 32) % bound;
}

void Processor::exit_thread() {
  Thread& thread = *current_;
  Block& block = *thread.block;
  if (!block.at_barrier.empty()) {
    fail("exits while " + std::to_string(block.at_barrier.size()) +
         " threads of its block wait in __syncthreads at " + to_string(block.at_barrier.front()->where));
  }
  Warp& warp = block.warps[thread.rank / 32];
  const unsigned bit = 1U << thread.rank % 32;
  for (const Gathering& gathering : warp.gatherings) {
    if ((gathering.mask & bit) != 0) {
      fail("exits while other lanes of its warp wait for it in " + std::string(gathering.operation) + " at " +
           to_string(warp.first[std::countr_zero(gathering.arrived)].where));
    }
  }
  warp.present &= ~bit;
  thread.copies.clear();
  thread.exited = true;
  --live_;
  // Those that wait at the cluster's barrier do not wait for this thread.
  if (at_cluster_barrier_.size() == live_) complete_cluster_barrier();
  if (--block.live == 0) exit_block(block);
}

void Processor::exit_block(Block& block) {
  for (const BulkCopy& copy : bulk_copies_) {
    if (copy.sender == &block) fail("its block exits before a bulk copy from its shared memory was complete");
    if (copy.receiver == &block) fail("its block exits before a bulk copy to its shared memory was complete");
  }
  if (!shared_memory_.surroundings_untouched(block.rank)) {
    fail("its block wrote outside of its " + std::to_string(shared_memory_.size()) +
         " bytes of dynamic shared memory");
  }
}

Block& Processor::accessible_block(unsigned rank, const char* operation) {
  if (rank >= cluster_size_) {
    fail("there is no rank " + std::to_string(rank) + " in a cluster of " + std::to_string(cluster_size_) +
         " blocks");
  }
  Block& block = blocks_[rank];
  if (!block.started || block.live == 0) {
    fail(std::string(operation) + ": block " + std::to_string(rank) + " of the cluster has " +
         (block.started ? "already exited" : "not started yet; cluster_synchronize first"));
  }
  return block;
}

bool Processor::stack_overflowed_at(const void* address) const {
  for (const Fiber& fiber : fibers_) {
    if (fiber.guard_holds(address)) return true;
  }
  return false;
}

// What device code calls.

unsigned char* dynamic_shared_memory() {
  Processor& p = processor();
  return p.shared_memory().of_rank(p.current()->block->rank);
}

unsigned lane() { return processor().current()->rank % 32; }
void synchronize_block(std::source_location where) { processor().synchronize_block(where); }
void perhaps_yield() { processor().perhaps_yield(); }
void yield() { processor().yield(); }

void warp_collective(unsigned mask, const char* operation, void* argument, Operate* operate,
                     std::source_location where) {
  processor().warp_collective(mask, operation, argument, operate, where);
}

}  // namespace orthornn::emulator
