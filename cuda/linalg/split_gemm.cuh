#pragma once
// The kernel of split_gemm: products of floats as sums of three bfloat16, on the tensor cores of compute
// capability 9.0.
//
// A block multiplies `rows` rows of a by `columns` rows of b, over a part of their columns, `chunk` at a
// time. Two warpgroups make what the others multiply:
//
//   fetch      numbers of both come to shared memory: by TMA, or where columns begin at no multiples of 16
//              bytes, by copies of 4 or 8 bytes
//   split      those of b become three tiles of bfloat16
//
// and each of the others has 64 rows of the results:
//
//   split      its numbers of a become three operands in registers
//   multiply   six products of the terms, those above 2^-24 of the whole
//
// What lies in shared memory:
//
//   tiles      [tile_sets, terms] of bfloat16     Square 96 KiB, Wide 72
//   numbers    [stages] boxes of a, then of b     Square 128 KiB, Wide 144
//   barriers   arrived, read, full, empty
//
// No barrier stops all warpgroups at once. While one splits, the products of another keep the tensor cores
// busy. tools/bench-results/h200.md has what each choice of the constants below took.
//
// Tensor cores cut off what they add below the last bit of a sum. So sums are short: every `short_sum` chunks
// threads add them to sums of their own. The blocks' parts are added at last, by sum_partials.

#include <cstdint>

#include "cuda/core/bf16_terms.cuh"
#include "cuda/core/kernel.cuh"
#include "cuda/core/pack.cuh"
#include "cuda/core/tensor_map.cuh"
#include "cuda/core/wgmma.cuh"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda::split_products {

inline constexpr int terms = 3;
inline constexpr int chunk = 32;
/// Columns of an instruction.
inline constexpr int depth = 16;
/// Chunks whose numbers are in shared memory. A chunk is fetched `ahead` chunks before it is split.
inline constexpr int stages = 4, ahead = 2;
inline constexpr int group_threads = 128;
/// Threads of the warpgroups that make tiles. One has too few warps to hide what its instructions wait for.
inline constexpr int maker_threads = 2 * group_threads;
/// Chunks of a sum on tensor cores, and columns.
inline constexpr int short_sum = 2, columns_of_sum = short_sum * chunk;
/// Of a tile, as instructions read it (cuda/core/wgmma.cuh).
inline constexpr int tile_row_bytes = 128, panel_columns = 64, vector_numbers = 8;
inline constexpr std::size_t tile_alignment = 1024;

struct Source {
  MatrixView<const float> matrix;
  /// Set where columns begin at multiples of 16 bytes.
  CUtensorMap map;
};

struct Arguments {
  Source a, b;
  Index depth_of_block;
  /// [blocks along the depth, b.rows, a.rows]
  float* partial;
};

/// A block of `Groups` warpgroups, each with 64 rows, and those that make tiles. Threads that multiply have
/// `Registers`, those that make tiles `MakerRegisters`. Tiles of `TileSets` chunks are in shared memory, as
/// many as have room.
template <int Groups, int Columns, int Registers, int MakerRegisters, int TileSets>
struct Shape {
  static constexpr int rows = 64 * Groups, columns = Columns, groups = Groups,
                       threads = group_threads * Groups + maker_threads;
  static constexpr int registers = Registers, maker_registers = MakerRegisters, tile_sets = TileSets;
  /// Registers of a thread when the kernel starts: the most that fit.
  static constexpr int first_registers = 65'536 / threads / 8 * 8;
  // With fewer registers the kernel would wait for them without end.
  static_assert(group_threads * Groups * registers + maker_threads * maker_registers <=
                threads * first_registers);
  // The tiles of a chunk become free after those of the next one are full.
  static_assert(tile_sets >= 2 && ahead < stages);
  /// A chunk has the boxes of a, then those of b (cuda/core/tensor_map.cuh).
  static constexpr int left_boxes = rows / box_rows, right_boxes = columns / box_rows;
  static_assert(left_boxes + right_boxes <= warp_size);
  static constexpr int stage_numbers = chunk * (rows + columns);
  static constexpr int panel_bytes = chunk * tile_row_bytes;
  static constexpr int tile_bytes = (columns + panel_columns - 1) / panel_columns * panel_bytes;
  static constexpr std::size_t shared_bytes =
      tile_alignment + tile_sets * terms * tile_bytes + stages * stage_numbers * sizeof(float);

  static Index tiles(Index a_rows, Index b_rows) {
    return Index{blocks_for(a_rows, rows)} * blocks_for(b_rows, columns);
  }
};

using Square = Shape<2, 128, 200, 56, 4>;
using Wide = Shape<3, 96, 128, 48, 3>;

/// totals += sums, which become 0.
template <int count>
__device__ __forceinline__ void add_sums(float (&totals)[count][4], float (&sums)[count][4]) {
#pragma unroll
  for (int j = 0; j < count; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      totals[j][i] += sums[j][i];
      sums[j][i] = 0;
    }
  }
}

/// Barriers of `Count` places that chunks take in turn.
template <int Count>
struct Turns {
  std::uint64_t* barriers;

  __device__ __forceinline__ std::uint64_t* of(int number) const { return barriers + number % Count; }
  __device__ __forceinline__ void initialize(unsigned arrivals) const {
    for (int i = 0; i < Count; ++i) ptx::mbarrier_initialize(barriers + i, arrivals);
  }
  /// By each thread: one lane for its warp took as long.
  __device__ __forceinline__ void arrive(int number) const { ptx::mbarrier_arrive(of(number)); }
  /// Until all have arrived for chunk `number`.
  __device__ __forceinline__ void wait(int number) const {
    ptx::mbarrier_wait(of(number), static_cast<unsigned>(number / Count % 2));
  }
  /// Until the place of chunk `number` is free again: all have arrived for the chunk that had it before.
  __device__ __forceinline__ void wait_before(int number) const {
    if (number >= Count) wait(number - Count);
  }
};

/// What the threads of a block have in common.
template <class Shape>
struct Memory {
  static constexpr int barriers = 2 * stages + 2 * Shape::tile_sets;

  unsigned char* tiles;
  float* numbers;
  /// `arrived`: the numbers of a chunk have come. `read`: all threads have read them.
  Turns<stages> arrived, read;
  /// `full`: the tiles of a chunk have been written. `empty`: the products that read them have ended.
  Turns<Shape::tile_sets> full, empty;

  __device__ __forceinline__ unsigned char* tile(int number, int term) const {
    return tiles + (number % Shape::tile_sets * terms + term) * Shape::tile_bytes;
  }
  /// Box i of the numbers of a chunk. Row m of its column k is number k * box_rows + place(m, k % 8).
  __device__ __forceinline__ float* box(int number, int i) const {
    return numbers + number % stages * Shape::stage_numbers + i * chunk * box_rows;
  }
  static __device__ __forceinline__ int place(int m, int k) { return (m / 4 ^ k) * 4 + m % 4; }
};

/// A thread of the warpgroups that make tiles. `Width` divides the numbers of rows, and columns begin at
/// multiples of `Width` floats. With 4, TMA fetches.
template <class Shape, int Width>
struct Maker {
  static constexpr bool has_boxes = Width == 4;
  /// Arrivals at `arrived`: one announces TMA's bytes, or each thread arrives when its copies are done.
  static constexpr unsigned arrivals = has_boxes ? 1 : maker_threads;

  const Memory<Shape>& memory;
  const Arguments& arguments;
  Index row, column, first;
  int chunks, thread;

  /// Starts copying the numbers of a chunk, if it exists, once all threads have read those in its place. All
  /// threads of the warpgroups call it.
  __device__ __forceinline__ void fetch(int number) const {
    if (number >= chunks || (has_boxes && thread >= warp_size)) return;
    memory.read.wait_before(number);
    const Index k = first + Index{number} * chunk;
    if constexpr (has_boxes) {
      fetch_boxes(number, static_cast<int>(k));
    } else {
      fetch_packs<Shape::left_boxes>(number, 0, arguments.a.matrix, row, k);
      fetch_packs<Shape::right_boxes>(number, Shape::left_boxes, arguments.b.matrix, column, k);
      ptx::cp_async_mbarrier_arrive(memory.arrived.of(number));
    }
  }
  /// From column k on, by a warp, a box a lane.
  __device__ __forceinline__ void fetch_boxes(int number, int k) const {
    std::uint64_t* const arrived = memory.arrived.of(number);
    if (thread == 0) ptx::mbarrier_arrive_expect(arrived, Shape::stage_numbers * sizeof(float));
    __syncwarp();
    const bool is_left = thread < Shape::left_boxes;
    if (thread >= Shape::left_boxes + Shape::right_boxes) return;
    const Index m = is_left ? row + thread * box_rows : column + (thread - Shape::left_boxes) * box_rows;
    ptx::copy_box_to_shared(memory.box(number, thread), is_left ? &arguments.a.map : &arguments.b.map,
                            static_cast<int>(m), k, arrived);
  }
  /// Starts copying rows from `first_row` on and columns from k on to the boxes from `box` on. A thread
  /// copies the same rows of each box, of columns with one permutation.
  template <int boxes>
  __device__ __forceinline__ void fetch_packs(int number, int box, const MatrixView<const float>& from,
                                              Index first_row, Index k) const {
    constexpr int packs = box_rows / Width, columns_at_once = maker_threads / packs,
                  bytes = Width * static_cast<int>(sizeof(float));
    static_assert(columns_at_once % 8 == 0);
    const int m = thread % packs * Width;
    const auto rows = static_cast<int>(min(Index{boxes * box_rows}, from.rows - first_row));
#pragma unroll
    for (int i = thread / packs; i < chunk; i += columns_at_once) {
      const bool is_column = k + i < from.cols;
      const float* const source = from.data + (k + i) * from.stride + first_row + m;
      float* const target = memory.box(number, box) + i * box_rows + memory.place(m, i % 8);
#pragma unroll
      for (int p = 0; p < boxes; ++p) {
        const bool is_there = is_column && p * box_rows + m < rows;
        ptx::cp_async_or_zero<bytes>(target + p * chunk * box_rows,
                                     is_there ? source + p * box_rows : from.data, is_there);
      }
    }
  }
  /// A thread splits one vector of every columns_at_once-th column. Vectors of odd boxes are those of one
  /// column further or before, so that eight lanes read different banks. They write to different banks too;
  /// in Wide a third of the writes take two turns.
  __device__ __forceinline__ void split(int number) const {
    constexpr int vectors = Shape::columns / vector_numbers,
                  columns_at_once = maker_threads / vectors / 8 * 8, box_vectors = box_rows / vector_numbers;
    static_assert(chunk % columns_at_once == 0);
    if (thread >= vectors * columns_at_once) return;
    const int v = thread % vectors, column_of_thread = thread / vectors ^ v / box_vectors % 2,
              in_eight = column_of_thread % 8, m = v % box_vectors * vector_numbers;
    const float* const numbers =
        memory.box(number, Shape::left_boxes + v / box_vectors) + column_of_thread * box_rows;
    unsigned char* const tile = memory.tile(number, 0) + v / 8 * Shape::panel_bytes +
                                column_of_thread * tile_row_bytes + (v % 8 ^ in_eight) * 16;
#pragma unroll
    for (int k = 0; k < chunk; k += columns_at_once) {
      const float* const x = numbers + k * box_rows;
      const Pack<float, 4> halves[2] = {load_pack<4>(x + memory.place(m, in_eight)),
                                        load_pack<4>(x + memory.place(m + 4, in_eight))};
#pragma unroll
      for (int term = 0; term < terms; ++term) {
        Pack<unsigned, 4> vector;
#pragma unroll
        for (int j = 0; j < 4; ++j)
          vector.of[j] = bf16_term_of(halves[j / 2].of[j % 2 * 2], halves[j / 2].of[j % 2 * 2 + 1], term);
        store_pack(vector, reinterpret_cast<unsigned*>(tile + term * Shape::tile_bytes + k * tile_row_bytes));
      }
    }
  }
  __device__ __forceinline__ void run() const {
    for (int number = 0; number < ahead; ++number) fetch(number);
    for (int number = 0; number < chunks; ++number) {
      memory.empty.wait_before(number);
      memory.arrived.wait(number);
      split(number);
      ptx::fence_proxy_async();
      memory.full.arrive(number);
      memory.read.arrive(number);
      fetch(number + ahead);
    }
  }
};

/// A thread of a warpgroup that multiplies.
template <class Shape>
struct Multiplier {
  /// Operands of an instruction: rows g and g + 8 of the warp's 16, where lane = 4 g + l.
  using Left = unsigned[terms][4];
  using Sums = float[Shape::columns / 8][4];

  const Memory<Shape>& memory;
  int g, l, first_row;
  /// Where the number of row g in column 2 l of eight lies in a box. Other places differ in bits.
  int place;

  explicit __device__ __forceinline__ Multiplier(const Memory<Shape>& shared)
      : memory(shared),
        g(threadIdx.x % warp_size / 4),
        l(threadIdx.x % 4),
        first_row(threadIdx.x / warp_size * 16),
        place(2 * l * box_rows + memory.place(first_row % box_rows + g, 2 * l)) {}

  __device__ __forceinline__ void split(int number, int step, Left& left) const {
    constexpr int eight_rows = 8, next_column = 4;  // what they change: v ^ 2 and v ^ 1, vectors of four
    const float* const box = memory.box(number, first_row / box_rows);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const x = box + (step * depth + i / 2 * 8) * box_rows;
      const int first = place ^ i % 2 * eight_rows;
#pragma unroll
      for (int term = 0; term < terms; ++term)
        left[term][i] = bf16_term_of(x[first], x[box_rows + (first ^ next_column)], term);
    }
  }
  /// Starts sums += the products of a step of a chunk.
  __device__ __forceinline__ void multiply(int number, int step, const Left& left, Sums& sums) const {
    wgmma::fence();
#pragma unroll
    for (int i = 0; i < terms; ++i) {
#pragma unroll
      for (int j = 0; i + j < terms; ++j) {
        const std::uint64_t right =
            wgmma::operand(memory.tile(number, j), tile_row_bytes, Shape::panel_bytes) +
            step * depth * tile_row_bytes / 16;
        wgmma::multiply<Shape::columns, true, true>(sums, left[i], right);
      }
    }
    wgmma::commit();
  }
  /// totals += the sums over all chunks, whose number is a multiple of `short_sum`.
  __device__ __forceinline__ void run(int chunks, Sums& totals) const {
    constexpr int steps = chunk / depth;
    Left left[steps];
    Sums sums = {};
    for (int first = 0; first < chunks; first += short_sum) {
#pragma unroll
      for (int number = first; number < first + short_sum; ++number) {
        memory.arrived.wait(number);
        memory.full.wait(number);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
          // Until the products that read these operands, of the chunk before, are done.
          wgmma::wait<steps - 1>();
          if (step == steps - 1 && number > first) memory.empty.arrive(number - 1);
          split(number, step, left[step]);
          multiply(number, step, left[step], sums);
        }
        memory.read.arrive(number);
      }
      wait(sums);
      memory.empty.arrive(first + short_sum - 1);
      add_sums(totals, sums);
    }
  }

 private:
  static __device__ __forceinline__ void wait(Sums& sums) {
    wgmma::wait<0>();
#pragma unroll
    for (auto& tile : sums) {
#pragma unroll
      for (float& x : tile) asm volatile("" : "+f"(x)::"memory");  // keeps reads of x behind the wait
    }
  }
};

/// Block (i, j, k): rows of range i of a, those of range j of b, columns of range k of both.
template <class Shape, int Width>
__global__ void __launch_bounds__(Shape::threads, 1)
    split_gemm_kernel(const __grid_constant__ Arguments arguments) {
  const MatrixView<const float>&a = arguments.a.matrix, &b = arguments.b.matrix;
  const Index row = Index{blockIdx.x} * Shape::rows, column = Index{blockIdx.y} * Shape::columns,
              first = Index{blockIdx.z} * arguments.depth_of_block,
              end = min(first + arguments.depth_of_block, a.cols);
  // Whole short sums: what they have beyond the matrices is 0.
  const auto chunks = static_cast<int>((end - first + columns_of_sum - 1) / columns_of_sum) * short_sum;
  using Shared = Memory<Shape>;
  using Makers = Maker<Shape, Width>;
  __shared__ std::uint64_t barriers[Shared::barriers];
  unsigned char* const begin = dynamic_shared_memory();
  unsigned char* const tiles =
      begin + (tile_alignment - ptx::shared_address(begin) % tile_alignment) % tile_alignment;
  const Shared memory{
      .tiles = tiles,
      .numbers = reinterpret_cast<float*>(tiles + Shape::tile_sets * terms * Shape::tile_bytes),
      .arrived = {barriers},
      .read = {barriers + stages},
      .full = {barriers + 2 * stages},
      .empty = {barriers + 2 * stages + Shape::tile_sets}};
  if (threadIdx.x == 0) {
    memory.arrived.initialize(Makers::arrivals);
    memory.read.initialize(Shape::threads);
    memory.full.initialize(maker_threads);
    memory.empty.initialize(Shape::groups * group_threads);
    ptx::fence_proxy_async();  // TMA counts its bytes at these barriers
  }
  __syncthreads();

  if (threadIdx.x >= Shape::groups * group_threads) {
    wgmma::release_registers<Shape::maker_registers>();
    const int thread = static_cast<int>(threadIdx.x) - Shape::groups * group_threads;
    Makers{memory, arguments, row, column, first, chunks, thread}.run();
    return;
  }
  wgmma::take_registers<Shape::registers>();
  using Own = Multiplier<Shape>;
  typename Own::Sums totals = {};
  const Own own(memory);
  own.run(chunks, totals);
  float* const out = arguments.partial + Index{blockIdx.z} * b.rows * a.rows;
#pragma unroll
  for (int j = 0; j < Shape::columns / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Index m = row + own.first_row + own.g + i / 2 * 8, n = column + 8 * j + 2 * own.l + i % 2;
      if (m < a.rows && n < b.rows) out[n * a.rows + m] = totals[j][i];
    }
  }
}

}  // namespace orthornn::cuda::split_products
