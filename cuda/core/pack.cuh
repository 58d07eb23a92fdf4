#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/core/kernel.cuh"

namespace orthornn::cuda {

/// Neighbours in memory, which are read or written together.
template <class T, int count>
struct alignas(std::min(count * sizeof(T), std::size_t{16})) Pack {
  T of[count];
};

/// The most that a lane reads or writes at once.
template <class T>
inline constexpr int numbers_of_word = 16 / sizeof(T);
template <class T>
using Word = Pack<T, numbers_of_word<T>>;

template <int count, class T>
__device__ __forceinline__ Pack<T, count> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, count>*>(from);
}
/// The same, which leaves the L1 cache to what is read again.
template <int count, class T>
__device__ __forceinline__ Pack<T, count> load_pack_past_l1(const T* from) {
  constexpr std::size_t bytes = sizeof(Pack<T, count>);
  using Bits = std::conditional_t<bytes == 16, uint4, std::conditional_t<bytes == 8, uint2, unsigned>>;
  static_assert(sizeof(Bits) == bytes);
  return std::bit_cast<Pack<T, count>>(__ldcg(reinterpret_cast<const Bits*>(from)));
}
template <class T, int count>
__device__ __forceinline__ void store_pack(const Pack<T, count>& pack, T* to) {
  *reinterpret_cast<Pack<T, count>*>(to) = pack;
}

/// Whether packs of so many numbers can begin here.
template <int count, class T>
bool is_aligned_for(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Pack<T, count>) == 0;
}

}  // namespace orthornn::cuda
