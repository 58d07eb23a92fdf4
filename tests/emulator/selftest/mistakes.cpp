#include <cstdlib>

#include "support.hpp"

/// Each of these is a mistake that a GPU may forgive, or answer with silence.

namespace {

using namespace orthornn::ptx;
using orthornn::emulator::dynamic_shared_memory;

__global__ void half_waits_kernel() {
  if (threadIdx.x < 40) __syncthreads();
}

__global__ void different_barriers_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void different_collectives_kernel() {
  if (threadIdx.x < 16) {
    __syncwarp();
  } else {
    __any_sync(0xFFFFFFFFU, 1);
  }
}

__global__ void incomplete_mask_kernel() {
  if (threadIdx.x < 16) __syncwarp();
}

__global__ void foreign_lane_kernel(float* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xFFFFU, 1.0F, 20);
}

__global__ void deadlock_kernel() {
  auto* barrier = reinterpret_cast<std::uint64_t*>(dynamic_shared_memory());
  if (threadIdx.x == 0) mbarrier_initialize(barrier, 2);
  __syncthreads();
  if (threadIdx.x == 0) mbarrier_arrive_expect(barrier, 0);
  mbarrier_wait(barrier, 0);
}

__global__ void uninitialised_kernel() {
  mbarrier_arrive_expect(reinterpret_cast<std::uint64_t*>(dynamic_shared_memory()), 0);
}

__global__ void too_many_arrivals_kernel() {
  auto* barrier = reinterpret_cast<std::uint64_t*>(dynamic_shared_memory());
  if (threadIdx.x == 0) {
    mbarrier_initialize(barrier, 1);
    mbarrier_arrive_expect(barrier, 16);
    mbarrier_arrive_expect(barrier, 0);
  }
}

__global__ void shared_write_kernel(int at) {
  if (threadIdx.x == 0) reinterpret_cast<float*>(dynamic_shared_memory())[at] = 1;
}

__global__ void global_write_kernel(float* x, int at) {
  if (threadIdx.x == 0) x[at] = 1;
}

__global__ void recursive_kernel(volatile int* depth) {
  volatile char frame[512] = {};
  if (*depth != frame[0]) recursive_kernel(depth);
  frame[1] = frame[0];  // so that it is needed until then
}

__global__ void early_copy_kernel() {
  auto* barrier = reinterpret_cast<std::uint64_t*>(dynamic_shared_memory());
  if (cluster_rank() == 0) copy_bulk_to_rank(barrier + 2, barrier + 2, 16, barrier, 1);
  cluster_synchronize();
}

__global__ void late_copy_kernel() {
  cluster_synchronize();
  auto* barrier = reinterpret_cast<std::uint64_t*>(dynamic_shared_memory());
  if (cluster_rank() == 1) copy_bulk_to_rank(barrier + 2, barrier + 2, 16, barrier, 0);
}

/// The sender does not wait for its copy to be complete.
__global__ void abandoned_copy_kernel() {
  auto* barrier = reinterpret_cast<std::uint64_t*>(dynamic_shared_memory());
  if (threadIdx.x == 0) mbarrier_initialize(barrier, 1);
  cluster_synchronize();
  if (cluster_rank() == 0) {
    if (threadIdx.x == 0) copy_bulk_to_rank(barrier + 2, barrier + 2, 16, barrier, 1);
  } else {
    if (threadIdx.x == 0) mbarrier_arrive_expect(barrier, 16);
    mbarrier_wait(barrier, 0);
  }
}

template <class... Arguments>
std::string words_of(const Shape& shape, Arguments... arguments) {
  return last_words([&] { launch(shape, arguments...); });
}

}  // namespace

TEST_CASE("Threads that do not come to a barrier") {
  CHECK_THAT(words_of({.block = 64}, half_waits_kernel),
             contains("half_waits_kernel") && contains("__syncthreads"));
  CHECK_THAT(words_of({.block = 64}, different_barriers_kernel),
             contains("other threads of the block are in that at"));
}

TEST_CASE("Lanes that do not come to a collective") {
  CHECK_THAT(words_of({}, different_collectives_kernel), contains("while other lanes of the warp are in"));
  CHECK_THAT(words_of({}, incomplete_mask_kernel),
             contains("incomplete_mask_kernel") && contains("__syncwarp"));
  CHECK_THAT(words_of({.block = 16}, incomplete_mask_kernel),
             contains("names lanes that have exited or do not exist"));
  CHECK_THAT(words_of({}, foreign_lane_kernel, static_cast<float*>(nullptr)), contains("lane 20"));
}

TEST_CASE("Misuse of mbarriers") {
  const auto deadlock = words_of({.block = 64, .shared_bytes = 8}, deadlock_kernel);
  CHECK_THAT(deadlock, contains("deadlock") && contains("threads 0 to 63: in mbarrier_wait at"));
  CHECK_THAT(words_of({.shared_bytes = 8}, uninitialised_kernel), contains("was not initialised"));
  CHECK_THAT(words_of({.shared_bytes = 8}, too_many_arrivals_kernel), contains("more arrivals"));
}

#ifdef __SANITIZE_ADDRESS__
#define REPORT(message) contains("AddressSanitizer")
#else
#define REPORT(message) contains(message)
#endif

TEST_CASE("Accesses outside of shared memory") {
  CHECK(words_of({.shared_bytes = 100}, shared_write_kernel, 24) == "lives");
  CHECK_THAT(words_of({.shared_bytes = 100}, shared_write_kernel, 25), REPORT("outside of its 100 bytes"));
  CHECK_THAT(words_of({.shared_bytes = 100}, shared_write_kernel, -1), REPORT("outside of its 100 bytes"));
  CHECK_THAT(words_of({.shared_bytes = 100}, shared_write_kernel, 32),
             REPORT("beyond the end of the 100 bytes"));
}

TEST_CASE("Accesses outside of device memory") {
  const auto words = [](int at, bool release) {
    return last_words([=] {
      float* x = nullptr;
      cudaMalloc(&x, 400);
      launch({}, global_write_kernel, x, at);
      if (release) cudaFree(x);
      if (!release) std::exit(0);
    });
  };
  CHECK(words(99, true) == "lives");
  CHECK_THAT(words(100, true), REPORT("0 bytes after the end of an allocation of 400 bytes"));
  CHECK_THAT(words(-1, true), REPORT("bytes before an allocation of 400 bytes"));
  CHECK_THAT(words(101, false), REPORT("4 bytes after the end of an allocation of 400 bytes"));
}

#ifndef __SANITIZE_ADDRESS__  // which the test framework keeps from hearing of signals
TEST_CASE("Recursion without end") {
  const DeviceVector depth(std::vector{1});
  CHECK_THAT(words_of({}, recursive_kernel, static_cast<volatile int*>(depth.data())),
             contains("stack overflows"));
}
#endif

TEST_CASE("Accesses to blocks of a cluster that do not run") {
  if (std::getenv("ORTHORNN_EMULATED_SEED") != nullptr) return;  // that depends on the order
  const Shape shape{.grid = 2, .cluster = 2, .shared_bytes = 64};
  CHECK_THAT(words_of(shape, early_copy_kernel), contains("has not started yet"));
  CHECK_THAT(words_of(shape, late_copy_kernel), contains("exits before a bulk copy to its shared memory"));
  CHECK_THAT(words_of(shape, abandoned_copy_kernel),
             contains("exits before a bulk copy from its shared memory"));
}
