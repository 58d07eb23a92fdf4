#pragma once
// The inverse of I + A in shared memory, with A below the diagonal, in float: blocks of 16 on the diagonal by
// substitution, a thread a column; then [X 0; B Y]^-1 = [X^-1 0; -Y^-1 B X^-1 Y^-1] for blocks of 16 and of
// 32 by tensor cores. Keys may repeat and beta be 2: a series in powers of A would not do.
//
// Substitution of whole columns, without blocks, took 210 us in place of 163 us (4096 chunks and heads, C =
// 64): its code did not fit into the instruction cache.

#include "cuda/core/kernel.cuh"
#include "cuda/delta/warp_product.cuh"

namespace orthornn::cuda {

/// Operands of float, each the sum of two tf32: x without its last 13 bits, and what is left of x without the
/// last bits of that. Products have errors of 2^-20. A rounded first part, as in FloatProduct, takes an
/// instruction more.
struct SplitProduct {
  using Left = FloatProduct<true>::Left;
  using Right = FloatProduct<true>::Right;

  static __device__ __forceinline__ void multiply(float (&sum)[4], const Left& x, const Right& y) {
    constexpr unsigned kept_bits = 0xFFFF'E000U;
    const auto head = [](float p) { return __float_as_uint(p) & kept_bits; };
    const auto rest = [](float p, unsigned first) { return __float_as_uint(p - __uint_as_float(first)); };
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float* const p = x.part + 4 * i;
      const float* const q = y.part + 2 * i;
      const unsigned a[4] = {head(p[0]), head(p[2]), head(p[1]), head(p[3])}, b[2] = {head(q[0]), head(q[1])};
      const unsigned a_rest[4] = {rest(p[0], a[0]), rest(p[2], a[1]), rest(p[1], a[2]), rest(p[3], a[3])};
      const unsigned b_rest[2] = {rest(q[0], b[0]), rest(q[1], b[1])};
      ptx::mma_m16n8k8_tf32(sum, a_rest, b);
      ptx::mma_m16n8k8_tf32(sum, a, b_rest);
      ptx::mma_m16n8k8_tf32(sum, a, b);
    }
  }
};

/// A square matrix of floats in shared memory. Rows are padded, so that neither operand waits for a bank much
/// and addresses are sums.
template <int size>
struct FloatSquare {
  static constexpr int pitch = size + 8;
  static constexpr std::size_t bytes = sizeof(float) * size * pitch;
  using Left = SplitProduct::Left;
  using Right = SplitProduct::Right;

  float* data;

  __device__ __forceinline__ float* at(int row, int column) const { return data + row * pitch + column; }
  /// As those of Tile.
  __device__ __forceinline__ Left left(int row, int column) const {
    Left x;
    const float* const from = at(row + lane_row(), column + lane_column());
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = *reinterpret_cast<const float2*>(from + i % 2 * 8 * pitch + i / 2 * 8);
      x.part[2 * i] = two.x, x.part[2 * i + 1] = two.y;
    }
    return x;
  }
  __device__ __forceinline__ void right(Right (&x)[2], int row, int column) const {
    const float* const from = at(row + lane_column(), column + lane_row());
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i / 4].part[i % 4] = from[(i % 2 + i / 2 % 2 * 8) * pitch + i / 4 * 8];
  }
  __device__ __forceinline__ void store(const float (&a)[4], const float (&b)[4], int row, int column) const {
    float* const to = at(row + lane_row(), column + lane_column());
    *reinterpret_cast<float2*>(to) = make_float2(a[0], a[1]);
    *reinterpret_cast<float2*>(to + 8 * pitch) = make_float2(a[2], a[3]);
    *reinterpret_cast<float2*>(to + 8) = make_float2(b[0], b[1]);
    *reinterpret_cast<float2*>(to + 8 * pitch + 8) = make_float2(b[2], b[3]);
  }
};

/// Replaces the block of 16 on the diagonal from `begin` on by its inverse. By a warp, the first half of
/// which has a column a thread.
template <int size>
__device__ __forceinline__ void invert_diagonal_block(const FloatSquare<size>& a, int begin) {
  const int column = static_cast<int>(threadIdx.x) % 32;
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float sums[4] = {i == column ? 1.0F : 0.0F, 0, 0, 0};
#pragma unroll
    for (int s = 0; s < i; s += 4) {
      const float4 row = *reinterpret_cast<const float4*>(a.at(begin + i, begin + s));
      sums[0] -= row.x * x[s];
      if (s + 1 < i) sums[1] -= row.y * x[s + 1];
      if (s + 2 < i) sums[2] -= row.z * x[s + 2];
      if (s + 3 < i) sums[3] -= row.w * x[s + 3];
    }
    x[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  __syncwarp();
  if (column < 16) {
#pragma unroll
    for (int i = 0; i < 16; ++i) *a.at(begin + i, begin + column) = x[i];
  }
}

/// Of the blocks of `size` below the diagonal that join two blocks on it, 16 rows a warp: B <- -Y^-1 B X^-1,
/// where the inverses are in place. By the whole block, which has a warp for each 16 rows.
template <int size, int columns>
__device__ __forceinline__ void join_blocks(const FloatSquare<columns>& a) {
  const int row = static_cast<int>(threadIdx.x) / 32 * 16, begin = row / (2 * size) * 2 * size;
  const bool works = row - begin >= size;
  Rows<size / 8> product, result;
  if (works) {
    product.set_zero();
    // Y^-1 is triangular.
    for (int k = begin + size; k <= row; k += 16) {
      const auto left = a.left(row, k);
#pragma unroll
      for (int n = 0; n < size; n += 16) {
        SplitProduct::Right right[2];
        a.right(right, k, begin + n);
        SplitProduct::multiply(product.tile[n / 8], left, right[0]);
        SplitProduct::multiply(product.tile[n / 8 + 1], left, right[1]);
      }
    }
    result.set_zero();
#pragma unroll
    for (int k = 0; k < size; k += 16) {
      const auto left = FloatProduct<true>::left(product.tile[k / 8], product.tile[k / 8 + 1]);
#pragma unroll
      for (int n = 0; n <= k; n += 16) {
        SplitProduct::Right right[2];
        a.right(right, begin + k, begin + n);
        SplitProduct::multiply(result.tile[n / 8], left, right[0]);
        SplitProduct::multiply(result.tile[n / 8 + 1], left, right[1]);
      }
    }
#pragma unroll
    for (auto& tile : result.tile) {
#pragma unroll
      for (float& x : tile) x = -x;
    }
  }
  __syncthreads();
  if (works) {
#pragma unroll
    for (int n = 0; n < size; n += 16) a.store(result.tile[n / 8], result.tile[n / 8 + 1], row, begin + n);
  }
  __syncthreads();
}

}  // namespace orthornn::cuda
