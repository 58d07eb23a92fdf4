#include "emulated_ptx.hpp"
#include "processor.hpp"

namespace orthornn::ptx {

using emulator::processor;

unsigned cluster_rank() { return processor().current()->block->rank; }
void cluster_synchronize(std::source_location where) { processor().synchronize_cluster(where); }

}  // namespace orthornn::ptx
