#pragma once
// What the sequences of a cluster exchange on tensor cores: columns of B (tensor_core_product.cuh). A block
// has one or two units of 64, 80 or 96 rows, of which each of its warps finishes eight.

#include <cuda_bf16.h>

#include "cuda/rollouts/persistent/octet_exchange.cuh"

namespace orthornn::cuda {

/// Octets are padded, so that the lanes whose reads are served at once read different banks: the 16 of half a
/// warp where a lane reads eight bytes, the eight of a quarter where it reads 16.
template <class Operands>
using ColumnLayout = OctetLayout<Operands::columns, 8 * Operands::operand_terms, 32, false>;

/// By warps: each sends its rows.
template <class Operands, int Blocks, int Units, int UnitRows>
class ColumnsByWarp : public OctetExchange<__nv_bfloat16, Blocks, Units * UnitRows / 8, UnitRows / 8,
                                           ColumnLayout<Operands>> {
  using Layout = ColumnLayout<Operands>;

 public:
  /// With so many of the columns.
  __device__ ColumnsByWarp(unsigned char* memory, int columns)
      : OctetExchange<__nv_bfloat16, Blocks, Units * UnitRows / 8, UnitRows / 8, Layout>(memory, columns) {}

  /// Says a term of one of this block's rows.
  __device__ void store(int step, int row, int term, int column, __nv_bfloat16 value) const {
    this->own_octet(
        step,
        row / Layout::rows)[column * Layout::column_numbers + Operands::offset(row % Layout::rows, term)] =
        value;
  }
  /// By a warp that has said its rows of all units: octet `octet` of each.
  __device__ void commit(int step, int octet) const { this->send(step, octet); }
  /// Where the first column lies from a row on that is a multiple of 16. Numbers 4 l .. 4 l + 3 from there of
  /// a column lie `offset` farther.
  __device__ const __nv_bfloat16* rows(int step, int row) const {
    return this->buffer(step) + Layout::place(row / Layout::rows);
  }
  static __device__ int offset(int column, int l) {
    return l / 2 * Layout::place(1) + column * Layout::column_numbers + Operands::offset(l % 2 * 4, 0);
  }
};

/// Numbers of bfloat16 from a column of so many rows to the next: the least that has room for the rows and is
/// 16 more than a multiple of 64. So columns are eight banks apart, and the 16 lanes of half a warp read
/// different banks.
constexpr int column_stride(int rows) { return (rows + 47) / 64 * 64 + 16; }

/// By blocks, each of which sends its rows by a bulk copy to each other block, once all of its warps have
/// said theirs. A state of one term is so small that this is faster: by warps, N = 512 took 4 % longer on an
/// H200. Columns beyond the given ones are never sent. A reader of them must keep nothing of what it
/// computes.
template <class Operands, int Blocks, int Units, int UnitRows>
class ColumnsByBlock
    : public ClusterBuffers<__nv_bfloat16, Blocks, Operands::columns * column_stride(Units* UnitRows)> {
  static constexpr int block_rows = Units * UnitRows, column_numbers = column_stride(block_rows);
  static_assert(Operands::operand_terms == 1);

 public:
  __device__ ColumnsByBlock(unsigned char* memory, int columns)
      : ClusterBuffers<__nv_bfloat16, Blocks, Operands::columns * column_numbers>(
            memory, (Blocks - 1) * bytes_of(columns), 0),
        bytes_(bytes_of(columns)) {}

  __device__ void store(int step, int row, int, int column, __nv_bfloat16 value) const {
    this->own(step)[column * column_numbers + row] = value;
  }
  __device__ void commit(int step, int) const {
    ptx::fence_proxy_async();
    __syncthreads();
    // A copy a warp, for one warp would start them one after another.
    const unsigned warp = threadIdx.x / warp_size;
    if (threadIdx.x % warp_size == 0 && warp < Blocks - 1) {
      // Of eight blocks the remainder is a mask. With `receiver`, N = 1024 took 4 % longer backward on an
      // H200.
      const unsigned rank = Blocks == 8 ? (this->rank_ + 1 + warp) % Blocks : this->receiver(warp);
      ptx::copy_bulk_to_rank(this->own(step), this->own(step), bytes_, this->barrier_of(step), rank);
    }
  }
  __device__ const __nv_bfloat16* rows(int step, int row) const {
    return this->buffer(step) + row / block_rows * (Operands::columns * column_numbers) + row % block_rows;
  }
  static __device__ int offset(int column, int l) { return column * column_numbers + 4 * l; }

 private:
  static constexpr __device__ unsigned bytes_of(int columns) {
    return static_cast<unsigned>(columns * column_numbers * sizeof(__nv_bfloat16));
  }

  unsigned bytes_ = 0;
};

}  // namespace orthornn::cuda
