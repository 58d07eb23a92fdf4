#pragma once
// How the blocks of a group tell each other the new state, by way of the L2 cache.
//
// Words are their own messages: a word that no block has written yet is `unwritten`, a NaN that no state has,
// and a reader loads until it finds something else. So a step waits for one store and one load, and not for a
// fence, a flag and a load after it. Eight buffers take turns. Number n of the states lies in buffer n % 8:
//   1. A block that has read all of number n knows that all blocks have published n, and so have read n - 1.
//   2. It publishes n + 1. Then it makes its words of n - 1 unwritten again, for n + 7.
//   3. That must be visible before any block looks for n + 7. The steps whose number is a multiple of three
//      have a fence between what they read and what they publish. The writer's next fence is that of a step
//      f <= n + 3. Then it publishes f + 1. The reader reads f + 1. The reader's next fence is that of step
//      f + 3 <= n + 6. Then it looks for n + 7.
// One thread writes a word of all numbers, and one thread of each block reads it. So fences of these two
// order all that is said of it. In 2, reads come before the writes that follow from them by data and barriers
// alone.

#include <cstdint>

#include "cuda/core/kernel.cuh"
#include "cuda/core/named_barrier.cuh"

namespace orthornn::cuda {

inline constexpr int grid_buffers = 8, steps_between_fences = 3;
inline constexpr unsigned unwritten = 0xFFFF'FFFF;

/// Nothing takes this long, unless a block does not run.
inline constexpr std::uint64_t grid_patience_ns = 10'000'000'000;

__device__ __forceinline__ uint4 load_words(const void* address) {
  uint4 x;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(address)
               : "memory");
  return x;
}
__device__ __forceinline__ void store_word(void* address, unsigned x) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(x) : "memory");
}
__device__ __forceinline__ void fence_between_steps() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

__device__ __forceinline__ unsigned largest_word(const uint4& x) { return max(max(x.x, x.y), max(x.z, x.w)); }
__device__ __forceinline__ bool is_written(const uint4& x) { return largest_word(x) != unwritten; }
/// A word that is not `unwritten`: another NaN in its place.
__device__ __forceinline__ unsigned writable(unsigned x) { return x == unwritten ? 0x7FFF'7FFF : x; }

/// Ends the kernel with an error of the device when a wait takes ten seconds: it must never hang.
class Watchdog {
 public:
  __device__ __forceinline__ void look() {
    constexpr int polls_a_look = 1 << 14;
    if (++polls_ % polls_a_look != 0) return;
    std::uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (began_ == 0) began_ = now;
    if (now - began_ > grid_patience_ns) __trap();
  }

 private:
  int polls_ = 0;
  std::uint64_t began_ = 0;
};

}  // namespace orthornn::cuda
