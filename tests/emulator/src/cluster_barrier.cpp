#include "emulator/fail.hpp"
#include "processor.hpp"

namespace orthornn::emulator {

void Processor::arrive_at_cluster(std::source_location where) {
  if (current_->arrived_at_cluster)
    fail("arrives at the cluster's barrier twice without a wait between", where);
  current_->arrived_at_cluster = true;
  current_->cluster_phase = cluster_phase_;
  ++arrived_at_cluster_;
  complete_cluster_barrier();
}

void Processor::wait_for_cluster(std::source_location where) {
  if (!current_->arrived_at_cluster) fail("waits at the cluster's barrier without having arrived", where);
  current_->arrived_at_cluster = false;
  if (current_->cluster_phase == cluster_phase_) {
    at_cluster_barrier_.push_back(current_);
    block("cluster_wait", where);
  } else if (random_state_ != 0) {
    yield();
  }
}

/// Threads that have exited do not count.
void Processor::complete_cluster_barrier() {
  if (arrived_at_cluster_ == 0 || arrived_at_cluster_ != live_) return;
  ++cluster_phase_;
  arrived_at_cluster_ = 0;
  for (Thread* thread : at_cluster_barrier_) make_ready(*thread);
  at_cluster_barrier_.clear();
}

}  // namespace orthornn::emulator
