#pragma once

#include <cstddef>

#include "cuda/core/kernel.cuh"
#include "cuda/core/ptx.cuh"

namespace orthornn::cuda {

/// What a thread reads in its next rounds, `Items` numbers or packs a round, on its way from device memory to
/// shared memory: asked for `Ahead` rounds before it is needed. A thread finds there what it has asked for
/// itself, so no barrier is needed. Registers for as much would leave too few threads to keep the memory
/// busy.
///
/// In a round a thread fetches from all that it reads, calls `ReadAhead::next_round`, takes, and advances.
template <class Item, int Items, int Ahead>
class ReadAhead {
  static constexpr int slots = Ahead + 1;

 public:
  /// Of shared memory, for a block of so many threads.
  static constexpr std::size_t bytes(unsigned threads) { return sizeof(Item) * Items * slots * threads; }

  /// `memory` is shared and `bytes` long; `thread` counts all threads of the block.
  __device__ __forceinline__ ReadAhead(unsigned char* memory, unsigned thread, unsigned threads)
      : mine_(reinterpret_cast<Item*>(memory) + thread), threads_(threads) {}

  /// Starts reading what lies at `first`, first + stride, ..: `count` items. The others will be `absent`.
  template <class T>
  __device__ __forceinline__ void fetch(const T* first, Index stride, Index count, const Item& absent) {
    if (count < Items) return fetch_some(first, stride, absent, [&](int i) { return i < count; });
    fetch_some(first, stride, absent, [](int) { return true; });
  }
  /// The same of those items for which `exists(i)`.
  template <class T, class Exists>
  __device__ __forceinline__ void fetch_some(const T* first, Index stride, const Item& absent,
                                             Exists exists) {
    Item* const to = mine_ + static_cast<unsigned>(fetched_ * Items) * threads_;
#pragma unroll
    for (int i = 0; i < Items; ++i) {
      if (exists(i)) {
        copy(first + i * stride, to + static_cast<unsigned>(i) * threads_);
      } else {
        to[static_cast<unsigned>(i) * threads_] = absent;
      }
    }
    fetched_ = fetched_ == Ahead ? 0 : fetched_ + 1;
  }
  /// Ends what a thread fetches for one round, and waits for what it fetched `Ahead` rounds before.
  static __device__ __forceinline__ void next_round() {
    ptx::cp_async_commit();
    ptx::cp_async_wait<Ahead>();
  }
  /// Item i of the oldest round that was not taken.
  __device__ __forceinline__ Item operator[](int i) const {
    return mine_[static_cast<unsigned>(taken_ * Items + i) * threads_];
  }
  __device__ __forceinline__ void advance() { taken_ = taken_ == Ahead ? 0 : taken_ + 1; }

 private:
  static __device__ __forceinline__ void copy(const void* from, Item* to) {
    constexpr std::size_t smallest_copy = 4;
    if constexpr (sizeof(Item) >= smallest_copy) {
      ptx::cp_async<sizeof(Item)>(to, from);
    } else {
      *to = *static_cast<const Item*>(from);
    }
  }

  Item* mine_;
  unsigned threads_;
  int fetched_ = 0, taken_ = 0;
};

}  // namespace orthornn::cuda
