#include <cmath>
#include <numeric>

#include "support.hpp"

namespace {

using orthornn::emulator::dynamic_shared_memory;

__global__ void index_kernel(unsigned* where) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  where[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

__global__ void sum_kernel(const float* x, float* sums, int n) {
  __shared__ float partial[32];
  float sum = 0;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += gridDim.x * blockDim.x)
    sum += x[i];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, lanes);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0F;
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xFFFFFFFFU, sum, lanes);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
  }
}

/// Rotates a ring of the block's values, one place each round.
__global__ void rotate_kernel(int* out, int rounds) {
  auto* ring = reinterpret_cast<int*>(dynamic_shared_memory());
  ring[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  for (int round = 0; round < rounds; ++round) {
    const int value = ring[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
    ring[threadIdx.x] = value;
    __syncthreads();
  }
  out[threadIdx.x] = ring[threadIdx.x];
}

__global__ void unwritten_kernel(float* out) {
  out[threadIdx.x] = reinterpret_cast<float*>(dynamic_shared_memory())[threadIdx.x];
}

__global__ void atomics_kernel(int* sum, unsigned* highest, unsigned long long* count, float* total,
                               int* last) {
  atomicAdd(sum, 2);
  atomicMax(highest, blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(count, 1ULL);
  atomicAdd(total, 0.5F);
  __threadfence();
  // The thread that finds all others to have been here.
  if (atomicAdd(last, 1) == static_cast<int>(gridDim.x * blockDim.x) - 1) atomicExch(last, -7);
}

__global__ void async_copy_kernel(const float* x, float* out, bool wait) {
  auto* buffer = reinterpret_cast<float*>(dynamic_shared_memory());
  const unsigned i = 4 * threadIdx.x;
  orthornn::ptx::cp_async<16>(buffer + i, x + i);
  orthornn::ptx::cp_async_commit();
  orthornn::ptx::cp_async<16>(buffer + 128 + i, x + 128 + i);
  orthornn::ptx::cp_async_commit();
  if (wait) orthornn::ptx::cp_async_wait<1>();
  __syncthreads();
  out[threadIdx.x] = buffer[127 - threadIdx.x];
  orthornn::ptx::cp_async_wait<0>();
  __syncthreads();
  out[32 + threadIdx.x] = buffer[128 + threadIdx.x];
}

}  // namespace

TEST_CASE("Every thread of every block runs once") {
  const DeviceVector<unsigned> where(24 * 30);
  REQUIRE(launch({.grid = {2, 3, 4}, .block = {5, 3, 2}}, index_kernel, where.data()) == cudaSuccess);
  const auto values = where.values();
  for (unsigned i = 0; i < values.size(); ++i) REQUIRE(values[i] == i / 30 * 1000 + i % 30);
}

TEST_CASE("Blocks reduce through shuffles and shared memory") {
  std::vector<float> x(10000);
  std::iota(x.begin(), x.end(), 0.0F);
  const DeviceVector<float> in(x), sums(7);
  REQUIRE(launch({.grid = 7, .block = 256}, sum_kernel, in.data(), sums.data(), 10000) == cudaSuccess);
  const auto values = sums.values();
  CHECK(std::accumulate(values.begin(), values.end(), 0.0) == Approx(9999.0 * 5000));
}

TEST_CASE("Barriers keep the threads of a block together") {
  const DeviceVector<int> out(768);
  REQUIRE(launch({.block = 768, .shared_bytes = 768 * 4}, rotate_kernel, out.data(), 100) == cudaSuccess);
  const auto values = out.values();
  for (int i = 0; i < 768; ++i) REQUIRE(values[i] == (i + 100) % 768);
}

TEST_CASE("Fresh memory is not a number") {
  const DeviceVector<float> out(32);
  CHECK(std::isnan(out.values()[5]));
  REQUIRE(cudaMemset(out.data(), 0, 32 * sizeof(float)) == cudaSuccess);
  CHECK(out.values()[5] == 0.0F);
  REQUIRE(launch({.grid = 2, .shared_bytes = 128}, unwritten_kernel, out.data()) == cudaSuccess);
  CHECK(std::isnan(out.values()[31]));
}

TEST_CASE("Atomic operations count every thread") {
  const DeviceVector sum(std::vector{0}), last(std::vector{0});
  const DeviceVector highest(std::vector{0U});
  const DeviceVector count(std::vector{1ULL << 40});
  const DeviceVector total(std::vector{0.0F});
  REQUIRE(launch({.grid = 5, .block = 100}, atomics_kernel, sum.data(), highest.data(), count.data(),
                 total.data(), last.data()) == cudaSuccess);
  CHECK(sum.values()[0] == 1000);
  CHECK(highest.values()[0] == 499);
  CHECK(count.values()[0] == (1ULL << 40) + 500);
  CHECK(total.values()[0] == 250.0F);
  CHECK(last.values()[0] == -7);
}

TEST_CASE("Asynchronous copies have arrived after the wait for their group") {
  std::vector<float> x(256);
  std::iota(x.begin(), x.end(), 0.0F);
  const DeviceVector<float> in(x), out(64);
  REQUIRE(launch({.shared_bytes = 1024}, async_copy_kernel, in.data(), out.data(), true) == cudaSuccess);
  for (int i = 0; i < 32; ++i) {
    CHECK(out.values()[i] == static_cast<float>(127 - i));
    CHECK(out.values()[32 + i] == static_cast<float>(128 + i));
  }
  if (std::getenv("ORTHORNN_EMULATED_SEED") == nullptr) {
    REQUIRE(launch({.shared_bytes = 1024}, async_copy_kernel, in.data(), out.data(), false) == cudaSuccess);
    CHECK(std::isnan(out.values()[31]));  // the first to go on after the barrier
  }
}
