#include "support.hpp"

namespace {

using namespace orthornn::ptx;
using orthornn::emulator::dynamic_shared_memory;

/// What passes around the ring of a cluster's blocks.
struct Message {
  alignas(16) float values[64];
};
struct RingMemory {
  Message outgoing[2], incoming[2];
  std::uint64_t full[2];
};

/// Every block passes on what it got, plus one, for some steps; incoming messages alternate between two
/// buffers.
__global__ void ring_kernel(float* out, unsigned size, int steps) {
  auto& memory = *reinterpret_cast<RingMemory*>(dynamic_shared_memory());
  const unsigned right = (cluster_rank() + 1) % size;
  if (threadIdx.x == 0) {
    mbarrier_initialize(&memory.full[0], 1);
    mbarrier_initialize(&memory.full[1], 1);
    mbarrier_fence_initialization();
  }
  __syncthreads();
  cluster_synchronize();
  float value = static_cast<float>(1000 * cluster_rank() + threadIdx.x);
  for (int step = 0; step < steps; ++step) {
    const int buffer = step % 2;
    memory.outgoing[buffer].values[threadIdx.x] = value;
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect(&memory.full[buffer], sizeof(Message));
      copy_bulk_to_rank(&memory.incoming[buffer], &memory.outgoing[buffer], sizeof(Message),
                        &memory.full[buffer], right);
    }
    mbarrier_wait(&memory.full[buffer], static_cast<unsigned>(step / 2) % 2);
    value = memory.incoming[buffer].values[threadIdx.x] + 1;
    // The neighbour may be a step ahead, and so send into the other buffer, but no more.
    cluster_synchronize();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

/// A warp that produces and one that consumes, of a single block.
__global__ void pipeline_kernel(int* out, int steps) {
  auto* barriers = reinterpret_cast<std::uint64_t*>(dynamic_shared_memory());
  auto* slot = reinterpret_cast<int*>(barriers + 2);
  if (threadIdx.x == 0) {
    mbarrier_initialize(barriers, 32);
    mbarrier_initialize(barriers + 1, 32);
  }
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;
  int sum = 0;
  for (int step = 0; step < steps; ++step) {
    const auto parity = static_cast<unsigned>(step) % 2;
    if (threadIdx.x < 32) {
      mbarrier_wait(barriers + 1, parity ^ 1);  // at first, there is nothing to be emptied
      slot[lane] = step;
      mbarrier_arrive_expect(barriers, 0);
    } else {
      mbarrier_wait(barriers, parity);
      sum += slot[31 - lane];
      mbarrier_arrive_expect(barriers + 1, 0);
    }
  }
  if (threadIdx.x >= 32) out[lane] = sum;
}

/// Some exit early: the barrier is for the others.
__global__ void early_exit_kernel(int* out) {
  cluster_synchronize();
  if (threadIdx.x % 2 == 1) return;
  atomicAdd(out, 1);
  cluster_synchronize();
  atomicMax(out + 1, *out);
  atomicMin(out + 2, *out);
}

}  // namespace

TEST_CASE("Bulk copies arrive with the phases of their barriers") {
  const unsigned size = GENERATE(1U, 2U, 8U, 16U);
  REQUIRE(cudaFuncSetAttribute(ring_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) ==
          cudaSuccess);
  const int steps = 19;
  const DeviceVector<float> out(2 * size * 64);
  REQUIRE(launch({.grid = 2 * size, .block = 64, .cluster = size, .shared_bytes = sizeof(RingMemory)},
                 ring_kernel, out.data(), size, steps) == cudaSuccess);
  const auto values = out.values();
  for (unsigned i = 0; i < values.size(); ++i) {
    const unsigned rank = i / 64 % size, origin = (rank + 100 * size - steps) % size;
    CHECK(values[i] == static_cast<float>(1000 * origin + i % 64 + steps));
  }
}

TEST_CASE("Warps of a block wait for one another at mbarriers") {
  const DeviceVector<int> out(32);
  REQUIRE(launch({.block = 64, .shared_bytes = 144}, pipeline_kernel, out.data(), 50) == cudaSuccess);
  for (const int sum : out.values()) CHECK(sum == 1225);
}

TEST_CASE("The cluster's barrier does not wait for threads that have exited") {
  const DeviceVector out(std::vector{0, 0, 1000});
  REQUIRE(launch({.grid = 4, .block = 64, .cluster = 4}, early_exit_kernel, out.data()) == cudaSuccess);
  CHECK(out.values() == std::vector{128, 128, 128});
}
