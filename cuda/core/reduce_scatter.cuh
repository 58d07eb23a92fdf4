#pragma once

#include "cuda/core/kernel.cuh"

namespace orthornn::cuda {

/// Sums `Count` values over groups of `Lanes` lanes, neighbours or `Stride` apart, and leaves in each lane
/// only its share of the sums: every exchange halves the number of values and the number of lanes that still
/// have to exchange. So Count values cost about Count + log2(Lanes) shuffles. One butterfly for each value
/// would cost Count * log2(Lanes).
template <int Count, int Lanes, int Stride = 1>
struct ReduceScatter {
  static constexpr bool halves = Count % 2 == 0 && Lanes > 1;
  using Next = ReduceScatter<halves ? Count / 2 : Count, Lanes / 2, Stride>;
  /// Number of sums that remain in a lane, in the first elements of the array.
  static constexpr int left = Next::left;
  /// Number of lanes, one after another in the group, that hold the same sums.
  static constexpr int copies = halves ? Next::copies : 2 * Next::copies;

  template <class T>
  static __device__ __forceinline__ void run(T* values, unsigned lane) {
    constexpr int distance = Stride * Lanes / 2;
    if constexpr (halves) {
      const bool upper = (lane & distance) != 0;
#pragma unroll
      for (int i = 0; i < Count / 2; ++i) {
        const T given = upper ? values[i] : values[i + Count / 2];
        const T kept = upper ? values[i + Count / 2] : values[i];
        values[i] = kept + __shfl_xor_sync(whole_warp, given, distance);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) values[i] += __shfl_xor_sync(whole_warp, values[i], distance);
    }
    Next::run(values, lane);
  }

  /// Index, among the Count values, of the first sum in this lane.
  static __device__ __forceinline__ int first(unsigned lane) {
    return ((lane & (Stride * Lanes / 2)) != 0 && halves ? Count / 2 : 0) + Next::first(lane);
  }
};

template <int Count, int Stride>
struct ReduceScatter<Count, 1, Stride> {
  static constexpr int left = Count;
  static constexpr int copies = 1;
  template <class T>
  static __device__ __forceinline__ void run(T*, unsigned) {}
  static __device__ __forceinline__ int first(unsigned) { return 0; }
};

}  // namespace orthornn::cuda
