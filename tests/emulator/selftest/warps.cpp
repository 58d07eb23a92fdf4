#include "support.hpp"

namespace {

constexpr unsigned all = 0xFFFFFFFFU;

template <class T>
__global__ void shuffle_kernel(T* out) {
  const unsigned lane = threadIdx.x;
  const T value = static_cast<T>(lane) + 100;
  out[lane] = __shfl_sync(all, value, static_cast<int>(lane + 5));
  out[32 + lane] = __shfl_xor_sync(all, value, 6);
  out[64 + lane] = __shfl_up_sync(all, value, 3);
  out[96 + lane] = __shfl_down_sync(all, value, 3);
  out[128 + lane] = __shfl_sync(all, value, 2, 8);
  out[160 + lane] = __shfl_up_sync(all, value, 3, 8);
  out[192 + lane] = __shfl_down_sync(all, value, 3, 8);
  out[224 + lane] = __shfl_xor_sync(all, value, 9, 8);
}

template <class T>
void check_shuffles() {
  const DeviceVector<T> out(256);
  REQUIRE(launch({}, shuffle_kernel<T>, out.data()) == cudaSuccess);
  const auto values = out.values();
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned group = lane & ~7U, place = lane & 7U;
    const auto from = [&](unsigned row) { return static_cast<unsigned>(values[32 * row + lane]) - 100; };
    CHECK(from(0) == (lane + 5) % 32);
    CHECK(from(1) == (lane ^ 6));
    CHECK(from(2) == (lane < 3 ? lane : lane - 3));
    CHECK(from(3) == (lane + 3 < 32 ? lane + 3 : lane));
    CHECK(from(4) == group + 2);
    CHECK(from(5) == (place < 3 ? lane : lane - 3));
    CHECK(from(6) == (place + 3 < 8 ? lane + 3 : lane));
    CHECK(from(7) == ((lane ^ 9) < group + 8 ? lane ^ 9 : lane));  // a later group cannot be read
  }
}

__global__ void vote_kernel(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  out[6 * threadIdx.x] = __ballot_sync(all, lane % 3 == 0);
  out[6 * threadIdx.x + 1] = static_cast<unsigned>(__any_sync(all, lane == 40));
  out[6 * threadIdx.x + 2] = static_cast<unsigned>(__all_sync(all, lane < 32));
  out[6 * threadIdx.x + 3] = __reduce_add_sync(all, threadIdx.x);
  out[6 * threadIdx.x + 4] = static_cast<unsigned>(__reduce_max_sync(all, -static_cast<int>(lane)));
  // Two groups of lanes on different ways.
  if (lane < 12) {
    out[6 * threadIdx.x + 5] = __reduce_add_sync(0xFFFU, 1U);
  } else {
    __syncwarp(0xFFFFF000U);
    out[6 * threadIdx.x + 5] = __reduce_add_sync(0xFFFFF000U, 1U);
  }
}

}  // namespace

TEST_CASE("Shuffles") {
  SECTION("float") { check_shuffles<float>(); }
  SECTION("double") { check_shuffles<double>(); }
  SECTION("int") { check_shuffles<int>(); }
  SECTION("unsigned") { check_shuffles<unsigned>(); }
  SECTION("64 bits") { check_shuffles<unsigned long long>(); }
}

TEST_CASE("Votes and reductions, also of parts of a warp") {
  const DeviceVector<unsigned> out(6 * 64);
  REQUIRE(launch({.block = 64}, vote_kernel, out.data()) == cudaSuccess);
  const auto values = out.values();
  for (unsigned thread = 0; thread < 64; ++thread) {
    const unsigned* of_thread = &values[6 * thread];
    CHECK(of_thread[0] == 0x49249249U);
    CHECK(of_thread[1] == 0);
    CHECK(of_thread[2] == 1);
    CHECK(of_thread[3] == (thread < 32 ? 496 : 1520));
    CHECK(of_thread[4] == 0);
    CHECK(of_thread[5] == (thread % 32 < 12 ? 12 : 20));
  }
}
