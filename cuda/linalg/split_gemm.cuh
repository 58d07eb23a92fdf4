#pragma once
// The kernel of split_gemm: products of floats as sums of two or three bfloat16, its terms, on the tensor
// cores of compute capability 9.0.
//
// A block multiplies `rows` rows of a by `columns` rows of b, over a part of their columns, `chunk` at a
// time. Two warpgroups make what the others multiply:
//
//   fetch      numbers of both come to shared memory, in boxes (split_gemm_boxes.cuh)
//   split      those of b become tiles of bfloat16, one of each term
//
// and each of the others has 64 rows of the results:
//
//   split      its numbers of a become operands in registers, one of each term
//   multiply   six products of three terms, those above 2^-24 of the whole; three of two, those above 2^-16
//
// What lies in shared memory:
//
//   tiles      [tile_sets, terms] of bfloat16     of three terms: Square 96 KiB, Wide 72
//   numbers    [stages] boxes of a, then of b     Square 128 KiB, Wide 144; shifted 99 or 132, and 148
//   barriers   arrived, read, full, empty
//
// No barrier stops all warpgroups at once. While one splits, the products of another keep the tensor cores
// busy. tools/bench-results/h200.md has what each choice of the constants below took.
//
// Tensor cores cut off what they add below the last bit of a sum. So sums are short: every `short_sum` chunks
// threads add them to sums of their own. The blocks' parts are added at last, by sum_partials.

#include <algorithm>
#include <cstdint>

#include "cuda/core/bf16_terms.cuh"
#include "cuda/core/clusters.hpp"
#include "cuda/core/wgmma.cuh"
#include "cuda/linalg/split_gemm_boxes.cuh"

namespace orthornn::cuda::split_products {

/// Chunks whose numbers are in shared memory, at most. A chunk is fetched `ahead` chunks before it is split,
/// once all threads have read the one in its place. With three stages, as Square has them for three terms of
/// shifted columns, that is the last one that was split.
inline constexpr int most_stages = 4, ahead = 2;
inline constexpr int group_threads = 128;
/// Threads of the warpgroups that make tiles. One has too few warps to hide what its instructions wait for.
inline constexpr int maker_threads = 2 * group_threads;
/// Chunks of a sum on tensor cores, and columns.
inline constexpr int short_sum = 2, columns_of_sum = short_sum * chunk;
/// Of a tile, as instructions read it (cuda/core/wgmma.cuh).
inline constexpr int tile_row_bytes = 128, panel_columns = 64;
inline constexpr std::size_t tile_alignment = 1024;

template <class Source>
struct Arguments {
  Source a, b;
  /// Rows of a and of b, and the columns of both.
  Index rows, columns, depth;
  Index depth_of_block;
  /// [blocks along the depth, columns, rows]
  float* partial;
};

/// A block of `Groups` warpgroups, each with 64 rows, and those that make tiles. Threads that multiply have
/// `Registers`, those that make tiles `MakerRegisters`. Tiles of `TileSets` chunks are in shared memory, and
/// the numbers of as many as have room then.
template <template <int, int> class BoxesType, int Terms, int Groups, int Columns, int Registers,
          int MakerRegisters, int TileSets>
struct Shape {
  static constexpr int terms = Terms;
  static constexpr int rows = 64 * Groups, columns = Columns, groups = Groups,
                       threads = group_threads * Groups + maker_threads;
  static constexpr int registers = Registers, maker_registers = MakerRegisters, tile_sets = TileSets;
  /// Registers of a thread when the kernel starts: the most that fit.
  static constexpr int first_registers = 65'536 / threads / 8 * 8;
  // With fewer registers the kernel would wait for them without end.
  static_assert(group_threads * Groups * registers + maker_threads * maker_registers <=
                threads * first_registers);
  // The tiles of a chunk become free after those of the next one are full.
  static_assert(tile_sets >= 2);
  using Boxes = BoxesType<rows, columns>;
  static constexpr int panel_bytes = chunk * tile_row_bytes;
  static constexpr int tile_bytes = (columns + panel_columns - 1) / panel_columns * panel_bytes;
  /// The barriers are there as well.
  static constexpr std::size_t barrier_bytes = (2 * most_stages + 2 * tile_sets) * sizeof(std::uint64_t);
  static constexpr std::size_t other_bytes = tile_alignment + tile_sets * terms * tile_bytes,
                               stage_bytes = Boxes::numbers * sizeof(float);
  static constexpr int stages =
      std::min<int>(most_stages, (cluster_shared_memory - barrier_bytes - other_bytes) / stage_bytes);
  static_assert(ahead < stages);
  static constexpr std::size_t shared_bytes = other_bytes + stages * stage_bytes;

  static Index tiles(Index a_rows, Index b_rows) {
    return Index{blocks_for(a_rows, rows)} * blocks_for(b_rows, columns);
  }
};

template <template <int, int> class Boxes, int Terms>
using Square = Shape<Boxes, Terms, 2, 128, 200, 56, 4>;
template <template <int, int> class Boxes, int Terms>
using Wide = Shape<Boxes, Terms, 3, 96, 128, 48, 3>;

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
  static constexpr int barriers = 2 * Shape::stages + 2 * Shape::tile_sets;

  unsigned char* tiles;
  float* numbers;
  /// `arrived`: the numbers of a chunk have come. `read`: all threads have read them.
  Turns<Shape::stages> arrived, read;
  /// `full`: the tiles of a chunk have been written. `empty`: the products that read them have ended.
  Turns<Shape::tile_sets> full, empty;

  __device__ __forceinline__ unsigned char* tile(int number, int term) const {
    return tiles + (number % Shape::tile_sets * Shape::terms + term) * Shape::tile_bytes;
  }
  __device__ __forceinline__ float* boxes(int number) const {
    return numbers + number % Shape::stages * Shape::Boxes::numbers;
  }
};

/// A thread of the warpgroups that make tiles.
template <class Shape>
struct Maker {
  using Boxes = typename Shape::Boxes;
  static constexpr int terms = Shape::terms;

  const Memory<Shape>& memory;
  const Arguments<typename Boxes::Source>& arguments;
  Index row, column, first;
  int chunks, thread;

  /// The first warp starts copying the numbers of a chunk, if it exists, once all threads have read those in
  /// its place.
  __device__ __forceinline__ void fetch(int number) const {
    if (number >= chunks || thread >= warp_size) return;
    memory.read.wait_before(number);
    std::uint64_t* const arrived = memory.arrived.of(number);
    if (thread == 0) ptx::mbarrier_arrive_expect(arrived, Shape::stage_bytes);
    __syncwarp();
    Boxes::fetch(memory.boxes(number), arguments.a, arguments.b, static_cast<int>(row),
                 static_cast<int>(column), static_cast<int>(first) + number * chunk, arrived, thread);
  }
  /// A thread splits one vector of every columns_at_once-th column. Of eight vectors the last four are those
  /// of one column further or before, so that eight lanes read different banks. They write to different banks
  /// too; in Wide a third of the writes take two turns.
  __device__ __forceinline__ void split(int number) const {
    constexpr int vectors = Shape::columns / vector_numbers,
                  columns_at_once = maker_threads / vectors / 8 * 8;
    static_assert(chunk % columns_at_once == 0);
    if (thread >= vectors * columns_at_once) return;
    const int v = thread % vectors, column_of_thread = thread / vectors ^ v / 4 % 2,
              in_eight = column_of_thread % 8;
    const float* const boxes = memory.boxes(number);
    unsigned char* const tile = memory.tile(number, 0) + v / 8 * Shape::panel_bytes +
                                column_of_thread * tile_row_bytes + (v % 8 ^ in_eight) * 16;
#pragma unroll
    for (int k = 0; k < chunk; k += columns_at_once) {
      float x[vector_numbers];
      Boxes::read_right(boxes, arguments.b, v, column_of_thread + k, x);
#pragma unroll
      for (int term = 0; term < terms; ++term) {
        Pack<unsigned, 4> vector;
#pragma unroll
        for (int j = 0; j < 4; ++j) vector.of[j] = bf16_term_of(x[2 * j], x[2 * j + 1], term);
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
  static constexpr int terms = Shape::terms;
  /// Operands of an instruction: rows g and g + 8 of the warp's 16, where lane = 4 g + l.
  using Left = unsigned[terms][4];
  using Sums = float[Shape::columns / 8][4];

  using Boxes = typename Shape::Boxes;

  const Memory<Shape>& memory;
  const typename Boxes::Source& a;
  int g = static_cast<int>(threadIdx.x % warp_size / 4), l = static_cast<int>(threadIdx.x % 4),
      first_row = static_cast<int>(threadIdx.x / warp_size * 16);
  typename Boxes::Left numbers{first_row + g, l};

  __device__ __forceinline__ void split(int number, int step, Left& left) const {
    const float* const boxes = memory.boxes(number);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = numbers.read(boxes, a, step, i);
#pragma unroll
      for (int term = 0; term < terms; ++term) left[term][i] = bf16_term_of(pair.x, pair.y, term);
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
template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    split_gemm_kernel(const __grid_constant__ Arguments<typename Shape::Boxes::Source> arguments) {
  const Index row = Index{blockIdx.x} * Shape::rows, column = Index{blockIdx.y} * Shape::columns,
              first = Index{blockIdx.z} * arguments.depth_of_block,
              end = min(first + arguments.depth_of_block, arguments.depth);
  // Whole short sums: what they have beyond the matrices is 0.
  const auto chunks = static_cast<int>((end - first + columns_of_sum - 1) / columns_of_sum) * short_sum;
  using Shared = Memory<Shape>;
  __shared__ std::uint64_t barriers[Shared::barriers];
  unsigned char* const begin = dynamic_shared_memory();
  unsigned char* const tiles =
      begin + (tile_alignment - ptx::shared_address(begin) % tile_alignment) % tile_alignment;
  const Shared memory{
      .tiles = tiles,
      .numbers = reinterpret_cast<float*>(tiles + Shape::tile_sets * Shape::terms * Shape::tile_bytes),
      .arrived = {barriers},
      .read = {barriers + Shape::stages},
      .full = {barriers + 2 * Shape::stages},
      .empty = {barriers + 2 * Shape::stages + Shape::tile_sets}};
  if (threadIdx.x == 0) {
    memory.arrived.initialize(1);
    memory.read.initialize(Shape::threads);
    memory.full.initialize(maker_threads);
    memory.empty.initialize(Shape::groups * group_threads);
    ptx::fence_proxy_async();  // TMA counts its bytes at these barriers
  }
  __syncthreads();

  if (threadIdx.x >= Shape::groups * group_threads) {
    wgmma::release_registers<Shape::maker_registers>();
    const int thread = static_cast<int>(threadIdx.x) - Shape::groups * group_threads;
    Maker<Shape>{memory, arguments, row, column, first, chunks, thread}.run();
    return;
  }
  wgmma::take_registers<Shape::registers>();
  using Own = Multiplier<Shape>;
  typename Own::Sums totals = {};
  const Own own{memory, arguments.a};
  own.run(chunks, totals);
  float* const out = arguments.partial + Index{blockIdx.z} * arguments.columns * arguments.rows;
#pragma unroll
  for (int j = 0; j < Shape::columns / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Index m = row + own.first_row + own.g + i / 2 * 8, n = column + 8 * j + 2 * own.l + i % 2;
      if (m < arguments.rows && n < arguments.columns) out[n * arguments.rows + m] = totals[j][i];
    }
  }
}

}  // namespace orthornn::cuda::split_products
