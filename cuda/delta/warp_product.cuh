#pragma once
// Products of small matrices by one warp on tensor cores, for kernels that keep results in registers.
//
// A warp holds 16 rows of a result as `Rows`: the layout of m16n8 results of PTX, in which lane 4 g + t has
// the numbers of rows g and g + 8 in columns 2 t and 2 t + 1 of every 8 columns. Two such 8 columns side by
// side are the left operand of the next product (`left`), without a move between lanes. Seen as columns of
// the transposed matrix, they are its right operand (`right`).
//
// Operands in shared memory are tiles of rows whose 16-byte vectors are permuted (`Tile`), so that neither
// reading along rows nor across them waits for a bank.

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/core/ptx.cuh"
#include "cuda/core/tf32_terms.cuh"
#include "orthornn/scalar/bfloat16.hpp"

namespace orthornn::cuda {

/// 16 rows of 8 Tiles columns: see above.
template <int Tiles>
struct Rows {
  float tile[Tiles][4];

  __device__ __forceinline__ void set_zero() {
#pragma unroll
    for (int j = 0; j < Tiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) tile[j][i] = 0;
    }
  }
};

/// The row and the first column of this lane's numbers 2 i and 2 i + 1 in a tile of 8 columns.
__device__ __forceinline__ int lane_row() { return static_cast<int>(threadIdx.x % 32) / 4; }
__device__ __forceinline__ int lane_column() { return static_cast<int>(threadIdx.x % 4) * 2; }

/// Operands of bfloat16, sums of float.
struct Bfloat16Product {
  using Element = bfloat16;
  static constexpr int vector = 8;  // elements of 16 bytes

  struct Left {
    unsigned part[4];
  };
  struct Right {
    unsigned part[2];
  };

  /// Where vector v of a row lies. Two rows of four vectors have all banks between them.
  template <int vectors>
  static __device__ __forceinline__ int place(int row, int v) {
    static_assert(vectors == 4 || vectors % 8 == 0);
    return vectors == 4 ? v ^ (row / 2 & 3) : v ^ (row & 7);
  }

  static __device__ __forceinline__ unsigned pack(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&both);
  }
  static __device__ __forceinline__ float low(unsigned both) { return __uint_as_float(both << 16); }
  static __device__ __forceinline__ float high(unsigned both) { return __uint_as_float(both & 0xFFFF'0000U); }

  static __device__ __forceinline__ Left left(const float (&a)[4], const float (&b)[4]) {
    return {{pack(a[0], a[1]), pack(a[2], a[3]), pack(b[0], b[1]), pack(b[2], b[3])}};
  }
  /// Columns are those of rows 0 .. 7 (half 0) or 8 .. 15 (half 1).
  static __device__ __forceinline__ Right right(const float (&a)[4], const float (&b)[4], int half) {
    return {{pack(a[2 * half], a[2 * half + 1]), pack(b[2 * half], b[2 * half + 1])}};
  }
  /// As two tiles of 8 columns.
  static __device__ __forceinline__ void unpack(const Left& x, float (&a)[4], float (&b)[4]) {
    a[0] = low(x.part[0]), a[1] = high(x.part[0]), a[2] = low(x.part[1]), a[3] = high(x.part[1]);
    b[0] = low(x.part[2]), b[1] = high(x.part[2]), b[2] = low(x.part[3]), b[3] = high(x.part[3]);
  }

  static __device__ __forceinline__ void multiply(float (&sum)[4], const Left& a, const Right& b) {
    ptx::mma_m16n8k16_bf16(sum, a.part, b.part);
  }
};

/// Operands of float, rounded to tf32; with `exact` each is the sum of two such numbers, and products have
/// the errors of float.
template <bool exact>
struct FloatProduct {
  using Element = float;
  static constexpr int vector = 4;

  /// The numbers of `Rows` of 16 columns. In a product of depth 8 the lane's columns 2 t and 2 t + 1 take the
  /// places of t and t + 4: the order of a sum is free.
  struct Left {
    float part[8];
  };
  struct Right {
    float part[4];
  };

  template <int vectors>
  static __device__ __forceinline__ int place(int row, int v) {
    static_assert(vectors % 8 == 0);
    return v ^ (2 * ((row + row / 4) & 3));
  }

  static __device__ __forceinline__ Left left(const float (&a)[4], const float (&b)[4]) {
    return {{a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]}};
  }
  static __device__ __forceinline__ Right right(const float (&a)[4], const float (&b)[4], int half) {
    return {{a[2 * half], a[2 * half + 1], b[2 * half], b[2 * half + 1]}};
  }
  static __device__ __forceinline__ void unpack(const Left& x, float (&a)[4], float (&b)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = x.part[i], b[i] = x.part[4 + i];
  }

  static __device__ __forceinline__ void multiply(float (&sum)[4], const Left& x, const Right& y) {
    using Terms = Tf32Terms<exact>;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float* const p = x.part + 4 * i;
      const float* const q = y.part + 2 * i;
      const Terms a[1][4] = {{Terms(p[0]), Terms(p[2]), Terms(p[1]), Terms(p[3])}};
      const Terms b[1][2] = {{Terms(q[0]), Terms(q[1])}};
      multiply_terms(a, b, [&](int, int) -> float(&)[4] { return sum; });
    }
  }
};

/// Rows of `columns` elements in shared memory. A matrix that one kernel keeps for another lies in global
/// memory as it does here (`image`), so that it is copied as it is. Any 16 rows of it lie as the first 16 do.
/// With `panel_rows` bfloat16 lie in panels of 64 columns and so many rows, as wgmma.cuh wants them.
template <class Product, int columns, int panel_rows = 0>
struct Tile {
  using Element = typename Product::Element;
  using Left = typename Product::Left;
  using Right = typename Product::Right;
  static constexpr int vectors = columns / Product::vector;
  static constexpr bool packed = Product::vector == 8;
  static constexpr bool has_panels = packed && panel_rows > 0 && columns > 64;
  static constexpr int row_size = has_panels ? 64 : columns, panel_size = panel_rows * row_size;

  Element* data;

  static constexpr std::size_t bytes(int rows) { return sizeof(Element) * rows * columns; }
  __device__ __forceinline__ Element* at_vector(int row, int v) const {
    if constexpr (has_panels)
      return data + v / 8 * panel_size + row * 64 + Product::template place<8>(row, v % 8) * Product::vector;
    return data + row * columns + Product::template place<vectors>(row, v) * Product::vector;
  }
  __device__ __forceinline__ Element& at(int row, int column) const {
    return at_vector(row, column / Product::vector)[column % Product::vector];
  }

  /// Writes a left operand to the 16 rows from `row` and 16 columns from `column`.
  __device__ __forceinline__ void store(const Left& x, int row, int column) const {
    if constexpr (packed) {
      const int lane = threadIdx.x % 32;
      ptx::store_matrices(x.part, at_vector(row + lane % 16, column / 8 + lane / 16));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        *reinterpret_cast<float2*>(
            &at(row + lane_row() + 8 * (i % 2), column + lane_column() + 8 * (i / 2))) =
            make_float2(x.part[2 * i], x.part[2 * i + 1]);
    }
  }

  /// The 16 rows from `row` and 16 columns from `column` as a left operand.
  __device__ __forceinline__ Left left(int row, int column) const {
    Left x;
    if constexpr (packed) {
      const int lane = threadIdx.x % 32;
      ptx::load_matrices(x.part, at_vector(row + lane % 16, column / 8 + lane / 16));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 two = *reinterpret_cast<const float2*>(
            &at(row + lane_row() + 8 * (i % 2), column + lane_column() + 8 * (i / 2)));
        x.part[2 * i] = two.x, x.part[2 * i + 1] = two.y;
      }
    }
    return x;
  }
  /// The same of the transposed tile: 16 of its columns from `column` are the rows of the operand, 16 of its
  /// rows from `row` its columns.
  __device__ __forceinline__ Left left_transposed(int row, int column) const {
    Left x;
    if constexpr (packed) {
      const int lane = threadIdx.x % 32;
      ptx::load_matrices_transposed(x.part,
                                    at_vector(row + lane % 8 + lane / 16 * 8, column / 8 + lane / 8 % 2));
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        x.part[i] = at(row + lane_column() + i % 2 + i / 4 * 8, column + lane_row() + i / 2 % 2 * 8);
    }
    return x;
  }
  /// Two right operands, of 8 columns each: the 16 rows from `row` are their columns, 16 columns from
  /// `column` are what the product sums over.
  __device__ __forceinline__ void right_transposed(Right (&x)[2], int row, int column) const {
    if constexpr (packed) {
      const int lane = threadIdx.x % 32;
      unsigned parts[4];
      ptx::load_matrices(parts, at_vector(row + lane % 8 + lane / 16 * 8, column / 8 + lane / 8 % 2));
      x[0] = {{parts[0], parts[1]}};
      x[1] = {{parts[2], parts[3]}};
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 two = *reinterpret_cast<const float2*>(
            &at(row + lane_row() + i / 2 * 8, column + lane_column() + i % 2 * 8));
        x[i / 2].part[i % 2 * 2] = two.x, x[i / 2].part[i % 2 * 2 + 1] = two.y;
      }
    }
  }
  /// The same where the product sums over the 16 rows, and columns are those of the tile.
  __device__ __forceinline__ void right(Right (&x)[2], int row, int column) const {
    if constexpr (packed) {
      const int lane = threadIdx.x % 32;
      unsigned parts[4];
      ptx::load_matrices_transposed(parts, at_vector(row + lane % 16, column / 8 + lane / 16));
      x[0] = {{parts[0], parts[1]}};
      x[1] = {{parts[2], parts[3]}};
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        x[i / 4].part[i % 4] =
            at(row + lane_column() + i % 2 + i / 2 % 2 * 8, column + lane_row() + i / 4 * 8);
    }
  }
};

}  // namespace orthornn::cuda
