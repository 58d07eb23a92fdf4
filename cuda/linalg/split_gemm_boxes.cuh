#pragma once
// How the numbers of a chunk come to shared memory for split_gemm, and lie there: in boxes that TMA copies. A
// chunk has `chunk` columns of `rows` rows of a, and of `columns` rows of b.
//
// TMA copies from multiples of 16 bytes alone. Where columns begin at such multiples, a chunk lies in
// SwizzledBoxes, otherwise in ShiftedBoxes. Both have
//
//   numbers       those of a chunk, with what pads them
//   left_source   what TMA knows of a, made by the host; throws DeviceError as tensor_map does
//   right_source  the same of b
//   fetch         starts copying a chunk to `to`, by a warp: from column k on, a multiple of `chunk`, and
//                 from rows `row` of a and `column` of b on; numbers beyond the matrices become 0
//   Left::read    two numbers of a row of a in neighbouring columns, for an operand in registers
//   read_right    eight numbers of a column of b
//
// Lanes that read at the same time read different banks.

#include <cstdint>

#include "cuda/core/kernel.cuh"
#include "cuda/core/pack.cuh"
#include "cuda/core/tensor_map.cuh"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda::split_products {

inline constexpr int chunk = 32;
/// Numbers of 16 bytes, and those that a thread splits at once.
inline constexpr int vector_floats = 4, vector_numbers = 8;
/// Columns of an operand of mma.sync and wgmma. Lanes l = 0 .. 3 have two of each eight.
inline constexpr int depth = 16;

/// Boxes of 32 rows, whose columns are 128 bytes each. Vector v of column k lies at v ^ (k % 8).
template <int rows, int columns>
struct SwizzledBoxes {
  static constexpr int box_rows = 32;
  static constexpr int left_boxes = rows / box_rows, right_boxes = columns / box_rows;
  static_assert(left_boxes + right_boxes <= warp_size);
  static constexpr int numbers = chunk * (rows + columns);

  struct Source {
    CUtensorMap map;
  };
  static Source left_source(const MatrixView<const float>& a) {
    return {tensor_map(a, box_rows, chunk, CU_TENSOR_MAP_SWIZZLE_128B)};
  }
  static Source right_source(const MatrixView<const float>& b) { return left_source(b); }

  /// A box a lane.
  static __device__ __forceinline__ void fetch(float* to, const Source& a, const Source& b, int row,
                                               int column, int k, std::uint64_t* arrived, int lane) {
    const bool is_left = lane < left_boxes;
    if (lane >= left_boxes + right_boxes) return;
    const int m = is_left ? row + lane * box_rows : column + (lane - left_boxes) * box_rows;
    ptx::copy_box_to_shared(to + lane * chunk * box_rows, is_left ? &a.map : &b.map, m, k, arrived);
  }

  /// Where a thread that multiplies finds its numbers of a: rows `row` and `row` + 8, columns 2 l and 2 l + 1
  /// of eight.
  struct Left {
    int box, place;

    __device__ __forceinline__ Left(int row, int l)
        : box(row / box_rows), place(2 * l * box_rows + place_of(row % box_rows, 2 * l)) {}
    /// Those of register i of the operand of a step: of row + 8 (i % 2), in eight columns i / 2 of the step.
    __device__ __forceinline__ float2 read(const float* from, const Source& /*a*/, int step, int i) const {
      constexpr int eight_rows = 8, next_column = 4;  // what they change: v ^ 2 and v ^ 1, vectors of four
      const float* const x = from + (box * chunk + step * depth + i / 2 * 8) * box_rows;
      const int first = place ^ i % 2 * eight_rows;
      return {x[first], x[box_rows + (first ^ next_column)]};
    }
  };

  /// x = the eight numbers of b from row 8 v on, in column k of the chunk.
  static __device__ __forceinline__ void read_right(const float* from, const Source& /*b*/, int v, int k,
                                                    float (&x)[vector_numbers]) {
    constexpr int box_vectors = box_rows / vector_numbers;
    const float* const box = from + ((left_boxes + v / box_vectors) * chunk + k) * box_rows;
    const int m = v % box_vectors * vector_numbers;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto four = load_pack<vector_floats>(box + place_of(m + half * vector_floats, k % 8));
#pragma unroll
      for (int i = 0; i < vector_floats; ++i) x[half * vector_floats + i] = four.of[i];
    }
  }

 private:
  static __device__ __forceinline__ int place_of(int m, int k) { return (m / 4 ^ k) * 4 + m % 4; }
};

/// Boxes of all rows, and of every fourth column. Every fourth column of a matrix begins at the same distance
/// behind a multiple of 16 bytes, its shift. A box begins at this multiple. So it has the numbers of its rows
/// from the shift on, and four numbers more than rows. Those before the shift and behind the rows are never
/// used. The first of them may lie before the matrix, but in the same 16 bytes as its first number.
///
/// Column k of a chunk is column 4 (k % 8) + k / 8 of the matrices from there on, for a and b alike.
template <int rows, int columns>
struct ShiftedBoxes {
  /// Residues of columns, divided by four, and the columns of a box.
  static constexpr int residues = 4, box_columns = chunk / residues;
  /// From a column of a box to the next: four banks further.
  static constexpr int left_stride = rows + vector_floats, right_stride = columns + vector_floats;
  static_assert(left_stride % warp_size == 4 && right_stride % warp_size == 4);
  // What TMA requires of boxes.
  static_assert(box_columns * left_stride % 32 == 0 && box_columns * right_stride % 32 == 0);
  static_assert(left_stride <= 256 && right_stride <= 256);
  static constexpr int left_numbers = chunk * left_stride, numbers = left_numbers + chunk * right_stride;

  struct Source {
    CUtensorMap maps[residues];
    /// Numbers of a box before its rows.
    int shifts[residues];
  };
  static Source left_source(const MatrixView<const float>& a) { return source_of(a, left_stride); }
  static Source right_source(const MatrixView<const float>& b) { return source_of(b, right_stride); }

  /// A lane fetches the box of a residue of a or of b.
  static __device__ __forceinline__ void fetch(float* to, const Source& a, const Source& b, int row,
                                               int column, int k, std::uint64_t* arrived, int lane) {
    if (lane >= 2 * residues) return;
    const bool is_left = lane < residues;
    const int residue = lane % residues, first = residue * box_columns;
    ptx::copy_box_to_shared(to + (is_left ? first * left_stride : left_numbers + first * right_stride),
                            (is_left ? a : b).maps + residue, is_left ? row : column, k / residues, arrived);
  }

  /// As in SwizzledBoxes.
  struct Left {
    int place;

    __device__ __forceinline__ Left(int row, int l) : place(2 * l * left_stride + row) {}
    __device__ __forceinline__ float2 read(const float* from, const Source& a, int step, int i) const {
      const int residue = step * (depth / box_columns) + i / 2;
      const float* const x =
          from + residue * box_columns * left_stride + place + i % 2 * 8 + a.shifts[residue];
      return {x[0], x[left_stride]};
    }
  };

  /// As in SwizzledBoxes.
  static __device__ __forceinline__ void read_right(const float* from, const Source& b, int v, int k,
                                                    float (&x)[vector_numbers]) {
    constexpr int vectors = vector_numbers / vector_floats + 1;
    const float* const begin = from + left_numbers + k * right_stride + v * vector_numbers;
    float shifted[vectors * vector_floats];
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      const auto four = load_pack<vector_floats>(begin + i * vector_floats);
#pragma unroll
      for (int j = 0; j < vector_floats; ++j) shifted[i * vector_floats + j] = four.of[j];
    }
    const int shift = b.shifts[k / box_columns];
#pragma unroll
    for (int i = 0; i <= vector_numbers; ++i) shifted[i] = shift / 2 == 1 ? shifted[i + 2] : shifted[i];
#pragma unroll
    for (int i = 0; i < vector_numbers; ++i) x[i] = shift % 2 == 1 ? shifted[i + 1] : shifted[i];
  }

 private:
  static Source source_of(const MatrixView<const float>& m, int stride) {
    Source source{};
    for (int residue = 0; residue < residues; ++residue) {
      const float* const begin = m.data + residue * m.stride;
      const auto shift =
          static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) / sizeof(float) % vector_floats);
      const Index every_fourth = (m.cols - residue + residues - 1) / residues;
      source.maps[residue] =
          tensor_map({begin - shift, m.rows + shift, every_fourth, residues * m.stride, m.device}, stride,
                     box_columns, CU_TENSOR_MAP_SWIZZLE_NONE);
      source.shifts[residue] = shift;
    }
    return source;
  }
};

}  // namespace orthornn::cuda::split_products
