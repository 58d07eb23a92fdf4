#include <cstring>

#include "emulated_ptx.hpp"
#include "emulator/fail.hpp"
#include "processor.hpp"

namespace orthornn::ptx {

using emulator::processor;

unsigned cluster_rank() { return processor().current()->block->rank; }
unsigned cluster_size() { return processor().cluster_size(); }
void cluster_arrive(std::source_location where) { processor().arrive_at_cluster(where); }
void cluster_wait(std::source_location where) { processor().wait_for_cluster(where); }

void cluster_synchronize(std::source_location where) {
  cluster_arrive(where);
  cluster_wait(where);
}

void* map_address_to_rank(void* shared, unsigned rank, std::source_location where) {
  const emulator::SharedMemory& memory = processor().shared_memory();
  const auto offset = static_cast<unsigned char*>(shared) - memory.of_rank(cluster_rank());
  if (offset < 0 || static_cast<std::size_t>(offset) >= memory.size()) {
    emulator::fail("maps an address outside of its dynamic shared memory to another block", where);
  }
  return memory.of_rank(processor().block_of_rank(rank).rank) + offset;
}

void store_remote(float* address, float value, unsigned rank, std::source_location where) {
  emulator::perhaps_yield();
  auto* mapped = map_to_rank(address, rank, where);
  processor().accessible_block(rank, "store_remote");
  *mapped = value;
}

}  // namespace orthornn::ptx
