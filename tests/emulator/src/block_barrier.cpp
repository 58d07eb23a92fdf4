#include "emulator/fail.hpp"
#include "processor.hpp"

namespace orthornn::emulator {

void Processor::synchronize_block(std::source_location where) {
  Block& block = *current_->block;
  std::vector<Thread*>& waiting = block.at_barrier;
  if (block.live != block_size_) {
    fail("__syncthreads after " + std::to_string(block_size_ - block.live) +
             " threads of the block have exited",
         where);
  }
  if (!waiting.empty()) {
    const std::source_location other = waiting.front()->where;
    if (!same_place(where, other)) {
      fail("__syncthreads while other threads of the block are in that at " + to_string(other), where);
    }
  }
  if (waiting.size() + 1 == block_size_) {
    for (Thread* thread : waiting) make_ready(*thread);
    waiting.clear();
    if (random_state_ != 0) yield();
    return;
  }
  waiting.push_back(current_);
  this->block("__syncthreads", where);
}

}  // namespace orthornn::emulator
