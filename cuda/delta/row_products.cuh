#pragma once
// Products of rows in registers with tiles in shared memory, by four warps of 16 rows each. With bfloat16 on
// a GPU of compute capability 9.0a the warpgroup multiplies (wgmma.cuh): products are started, and run beside
// the threads until `wait`. Elsewhere each warp multiplies at once (warp_product.cuh).
//
// N columns of results are N / 8 tiles of `Rows`. Before products are started, `fence` must follow the last
// change of their registers.

#include "cuda/core/wgmma.cuh"
#include "cuda/delta/warp_product.cuh"

namespace orthornn::cuda {

/// With other than four warps, each multiplies at once on every GPU.
template <class Product, bool four_warps = true>
struct RowProducts {
  static constexpr bool by_warpgroup = four_warps && Product::vector == 8 && wgmma::has_wgmma;
  using Left = typename Product::Left;

  /// Columns that one product has are a multiple of this, so that a triangular matrix is done in such blocks.
  static constexpr int granule = by_warpgroup ? 32 : 16;
  /// Columns that one product has at most.
  static constexpr int most_columns = 128;

  static __device__ __forceinline__ void fence() {
    if constexpr (by_warpgroup) wgmma::fence();
  }
  static __device__ __forceinline__ void commit() {
    if constexpr (by_warpgroup) wgmma::commit();
  }
  /// Waits for the results `sums`, for all groups of products but the last N.
  template <int N, int... tiles>
  static __device__ __forceinline__ void wait(Rows<tiles>&... sums) {
    if constexpr (by_warpgroup) {
      wgmma::wait<N>();
      (hold(sums), ...);
    }
  }

  /// Gives registers of a warpgroup back, or takes them, so that a thread has so many: a multiple of 8.
  template <int count>
  static __device__ __forceinline__ void release_registers() {
    if constexpr (by_warpgroup) wgmma::release_registers<count>();
  }
  template <int count>
  static __device__ __forceinline__ void take_registers() {
    if constexpr (by_warpgroup) wgmma::take_registers<count>();
  }

  /// sums += left t^T, or sums = left t^T, where t has rows `row` .. `row` + N - 1 and 16 columns from
  /// `column`.
  template <int N, bool add, int columns, int panel_rows>
  static __device__ __forceinline__ void with_rows(float (*sums)[4], const Left& left,
                                                   const Tile<Product, columns, panel_rows>& tile, int row,
                                                   int column) {
    if constexpr (by_warpgroup) {
      using T = Tile<Product, columns, panel_rows>;
      const int place = column / T::row_size * T::panel_size + row * T::row_size + column % T::row_size;
      wgmma::multiply<N, false, add>(sums, left.part, operand(tile) + place / 8);
    } else {
      if constexpr (!add) set_zero<N>(sums);
#pragma unroll
      for (int n = 0; n < N; n += 16) {
        typename Product::Right right[2];
        tile.right_transposed(right, row + n, column);
        Product::multiply(sums[n / 8], left, right[0]);
        Product::multiply(sums[n / 8 + 1], left, right[1]);
      }
    }
  }

  /// sums += left t, or sums = left t, where t has 16 rows from `row` and columns `column` .. `column` + N -
  /// 1; `column` is a multiple of 64.
  template <int N, bool add, int columns, int panel_rows>
  static __device__ __forceinline__ void over_rows(float (*sums)[4], const Left& left,
                                                   const Tile<Product, columns, panel_rows>& tile, int row,
                                                   int column) {
    if constexpr (by_warpgroup) {
      using T = Tile<Product, columns, panel_rows>;
      const int place = column / T::row_size * T::panel_size + row * T::row_size;
      wgmma::multiply<N, true, add>(sums, left.part, operand(tile) + place / 8);
    } else {
      if constexpr (!add) set_zero<N>(sums);
#pragma unroll
      for (int n = 0; n < N; n += 16) {
        typename Product::Right right[2];
        tile.right(right, row, column + n);
        Product::multiply(sums[n / 8], left, right[0]);
        Product::multiply(sums[n / 8 + 1], left, right[1]);
      }
    }
  }

  /// As with_rows, of the first N rows and all columns of t, 16 of them for each left operand.
  template <int N, bool add, int count, int columns, int panel_rows>
  static __device__ __forceinline__ void with_all_columns(float (*sums)[4], const Left (&left)[count],
                                                          const Tile<Product, columns, panel_rows>& tile) {
    static_assert(16 * count == columns);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (i == 0)
        with_rows<N, add>(sums, left[0], tile, 0, 0);
      else
        with_rows<N, true>(sums, left[i], tile, 0, 16 * i);
    }
  }

  /// As over_rows, of all columns of t, N in a product, and 16 rows for each left operand.
  template <int N, bool add, int count, int columns, int panel_rows>
  static __device__ __forceinline__ void over_all_columns(float (*sums)[4], const Left (&left)[count],
                                                          const Tile<Product, columns, panel_rows>& tile) {
    static_assert(columns % N == 0);
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
      for (int k = 0; k < columns; k += N) {
        if (i == 0)
          over_rows<N, add>(sums + k / 8, left[0], tile, 0, k);
        else
          over_rows<N, true>(sums + k / 8, left[i], tile, 16 * i, k);
      }
    }
  }

 private:
  template <int tiles>
  static __device__ __forceinline__ void hold(Rows<tiles>& rows) {
#pragma unroll
    for (auto& tile : rows.tile) {
#pragma unroll
      for (float& x : tile) asm volatile("" : "+f"(x)::"memory");
    }
  }
  template <int N>
  static __device__ __forceinline__ void set_zero(float (*sums)[4]) {
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[j][i] = 0;
    }
  }
  template <int columns, int panel_rows>
  static __device__ __forceinline__ std::uint64_t operand(const Tile<Product, columns, panel_rows>& tile) {
    using T = Tile<Product, columns, panel_rows>;
    constexpr int bytes = sizeof(typename T::Element);
    static_assert(T::row_size * bytes == 128 || T::row_size * bytes == 64);
    return wgmma::operand(tile.data, T::row_size * bytes, T::has_panels ? T::panel_size * bytes : 0);
  }
};

}  // namespace orthornn::cuda
