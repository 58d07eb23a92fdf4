#include "processor.hpp"

namespace orthornn::emulator {

void Processor::synchronize_cluster(std::source_location where) {
  if (at_cluster_barrier_.size() + 1 == live_) {
    complete_cluster_barrier();
    if (random_state_ != 0) yield();
  } else {
    at_cluster_barrier_.push_back(current_);
    block("cluster_synchronize", where);
  }
}

void Processor::complete_cluster_barrier() {
  for (Thread* thread : at_cluster_barrier_) make_ready(*thread);
  at_cluster_barrier_.clear();
}

}  // namespace orthornn::emulator
