#pragma once

#include "cuda/core/kernel.cuh"

namespace orthornn::cuda {

/// Sums `Count` values over groups of `Lanes` lanes, neighbours or `Stride` apart, and leaves in each lane
/// only its share of the sums: every exchange halves the number of values and the number of lanes that still
/// have to exchange. So Count values cost about Count + log2(Lanes) shuffles. One butterfly for each value
/// would cost Count * log2(Lanes). Of an odd number of values, the lower lanes keep one more.
template <int Count, int Lanes, int Stride = 1>
struct ReduceScatter {
  static constexpr bool halves = Count > 1 && Lanes > 1;
  static constexpr int kept = halves ? (Count + 1) / 2 : Count;
  using Next = ReduceScatter<kept, Lanes / 2, Stride>;
  /// Number of sums that remain in a lane at most, in the first elements of the array.
  static constexpr int left = Next::left;
  /// Number of lanes, one after another in the group, that hold the same sums.
  static constexpr int copies = halves ? Next::copies : 2 * Next::copies;

  template <class T>
  static __device__ __forceinline__ void run(T* values, unsigned lane) {
    if constexpr (halves) {
      const bool upper = is_upper(lane);
#pragma unroll
      for (int i = 0; i < kept; ++i) {
        const T second = i + kept < Count ? values[i + kept] : T{0};
        const T given = upper ? values[i] : second;
        values[i] = (upper ? second : values[i]) + __shfl_xor_sync(whole_warp, given, distance);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) values[i] += __shfl_xor_sync(whole_warp, values[i], distance);
    }
    Next::run(values, lane);
  }

  /// Index, among the Count values, of the first sum in this lane.
  static __device__ __forceinline__ int first(unsigned lane) {
    return (halves && is_upper(lane) ? kept : 0) + Next::first(lane);
  }
  /// Number of sums in this lane, of the first `count` values.
  static __device__ __forceinline__ int number(unsigned lane, int count = Count) {
    if (halves) count = is_upper(lane) ? count - kept : count < kept ? count : kept;
    return Next::number(lane, count);
  }

 private:
  static constexpr int distance = Stride * Lanes / 2;

  static __device__ __forceinline__ bool is_upper(unsigned lane) { return (lane & distance) != 0; }
};

template <int Count, int Stride>
struct ReduceScatter<Count, 1, Stride> {
  static constexpr int left = Count;
  static constexpr int copies = 1;
  template <class T>
  static __device__ __forceinline__ void run(T*, unsigned) {}
  static __device__ __forceinline__ int first(unsigned) { return 0; }
  static __device__ __forceinline__ int number(unsigned, int count) { return count; }
};

}  // namespace orthornn::cuda
