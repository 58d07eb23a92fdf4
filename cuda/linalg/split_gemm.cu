#include <algorithm>
#include <cassert>
#include <cstdint>

#include "cuda/core/bf16_terms.cuh"
#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/core/named_barrier.cuh"
#include "cuda/core/pack.cuh"
#include "cuda/core/wgmma.cuh"
#include "cuda/linalg/split_gemm.hpp"
#include "cuda/linalg/sum_partials.cuh"

// A block multiplies `rows` rows of a by `columns` rows of b, over a part of their columns, `chunk` at a
// time. Two warpgroups make what the others multiply:
//
//   fetch      numbers of both come to shared memory, two chunks ahead
//   split      those of b become three tiles of bfloat16
//
// and each of the others has 64 rows of the results:
//
//   split      its numbers of a become three operands in registers
//   multiply   six products of the terms, those above 2^-24 of the whole
//
// No barrier stops all warpgroups at once. While one splits, the products of another keep the tensor cores
// busy.
//
// Tensor cores cut off what they add below the last bit of a sum. So sums are short: every `short_sum` chunks
// threads add them to sums of their own. The blocks' parts are added at last, by sum_partials.

namespace orthornn::cuda {
namespace {

constexpr int terms = 3;
constexpr int chunk = 32;
/// Columns of an instruction.
constexpr int depth = 16;
/// Chunks of which the numbers, and the tiles, are in shared memory.
constexpr int stages = 3, tile_sets = 2;
constexpr int group_threads = 128;
/// Of the warpgroups that make tiles. One has too few warps to hide what its instructions wait for.
constexpr int maker_threads = 2 * group_threads;
/// Chunks of a sum on tensor cores.
constexpr int short_sum = 2;
/// Of a tile, as instructions read it (cuda/core/wgmma.cuh).
constexpr int tile_row_bytes = 128, panel_columns = 64, vector_numbers = 8;
constexpr std::size_t tile_alignment = 1024;
/// Blocks that fill a large GPU. Not this one: the order of the sums depends on the sizes alone.
constexpr Index enough_blocks = 132;

struct Arguments {
  MatrixView<const float> a, b;
  Index depth_of_block;
  /// [blocks along the depth, b.rows, a.rows]
  float* partial;
};

/// A block of `Groups` warpgroups, each with 64 rows, and those that make tiles.
template <int Groups, int Columns>
struct Shape {
  static constexpr int rows = 64 * Groups, columns = Columns, groups = Groups,
                       threads = group_threads * Groups + maker_threads;
  /// Of a thread when the kernel starts, the most that there are; then of one that multiplies, and of one
  /// that makes tiles.
  static constexpr int first_registers = 65'536 / threads / 8 * 8, registers = Groups == 2 ? 208 : 128,
                       maker_registers = Groups == 2 ? 48 : 40;
  // With fewer registers the kernel would wait for them without end.
  static_assert(group_threads * Groups * registers + maker_threads * maker_registers <=
                threads * first_registers);
  /// From column to column of a. So padded, lanes that read two columns of eight rows meet different banks.
  static constexpr int left_stride = rows + 4;
  static constexpr int stage_numbers = chunk * (left_stride + columns);
  static constexpr int panel_bytes = chunk * tile_row_bytes;
  static constexpr int tile_bytes = (columns + panel_columns - 1) / panel_columns * panel_bytes;
  static constexpr std::size_t shared_bytes =
      tile_alignment + tile_sets * terms * tile_bytes + stages * stage_numbers * sizeof(float);

  static Index tiles(Index a_rows, Index b_rows) {
    return Index{blocks_for(a_rows, rows)} * blocks_for(b_rows, columns);
  }
};

/// Starts copying `Size` rows of a chunk of a matrix, from `row` and `column` on, by the threads that make
/// tiles. What lies beyond the matrix, or beyond column `end`, is 0.
template <int Width, int Size, int Stride>
__device__ __forceinline__ void fetch(float* to, const MatrixView<const float>& from, int thread, Index row,
                                      Index column, Index end) {
  constexpr int packs = Size / Width, columns_at_once = maker_threads / packs;
  const int m = thread % packs * Width, first = thread / packs;
  if (first >= columns_at_once) return;
  const bool is_row = row + m < from.rows;
  const int columns = static_cast<int>(min(Index{chunk}, end - column));
  const float* source = from.data + (column + first) * from.stride + row + m;
  float* target = to + first * Stride + m;
  const Index step = columns_at_once * from.stride;
#pragma unroll 4
  for (int k = first; k < chunk; k += columns_at_once, source += step, target += columns_at_once * Stride) {
    if (is_row && k < columns) {
      ptx::cp_async<Width* static_cast<int>(sizeof(float))>(target, source);
    } else {
      store_pack(Pack<float, Width>{}, target);
    }
  }
}

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

/// What the threads of a block have in common.
template <class Shape>
struct Memory {
  unsigned char* tiles;
  float* stages_of_numbers;
  /// [tile_sets] barriers each. `full`: the numbers and the tiles of a chunk have been written. `empty`: the
  /// products that read these tiles have ended.
  std::uint64_t *full, *empty;
  /// [stages] barriers: all warpgroups have read the numbers of a chunk.
  std::uint64_t* read;

  __device__ __forceinline__ unsigned char* tile(int number, int term) const {
    return tiles + (number % tile_sets * terms + term) * Shape::tile_bytes;
  }
  __device__ __forceinline__ float* left(int number) const {
    return stages_of_numbers + number % stages * Shape::stage_numbers;
  }
  __device__ __forceinline__ float* right(int number) const {
    return left(number) + chunk * Shape::left_stride;
  }
  /// Waits until a chunk has come to one of `count` places, or has left it.
  static __device__ __forceinline__ void wait(std::uint64_t* barriers, int number, int count) {
    ptx::mbarrier_wait(barriers + number % count, static_cast<unsigned>(number / count % 2));
  }
};

/// A thread of the warpgroups that make tiles.
template <class Shape, int Width>
struct Maker {
  const Memory<Shape>& memory;
  const Arguments& arguments;
  Index row, column, first, end;
  int chunks, thread;

  __device__ __forceinline__ void fetch_chunk(int number) const {
    if (number < chunks) {
      if (number >= stages) memory.wait(memory.read, number - stages, stages);
      const Index k = first + Index{number} * chunk;
      fetch<Width, Shape::rows, Shape::left_stride>(memory.left(number), arguments.a, thread, row, k, end);
      fetch<Width, Shape::columns, Shape::columns>(memory.right(number), arguments.b, thread, column, k, end);
    }
    ptx::cp_async_commit();
  }
  __device__ __forceinline__ void split(int number) const {
    constexpr int vectors = Shape::columns / vector_numbers;
    const float* const numbers = memory.right(number);
#pragma unroll 1
    for (int i = thread; i < chunk * vectors; i += maker_threads) {
      const int k = i / vectors, v = i % vectors, in_panel = v % 8;
      const float* const x = numbers + k * Shape::columns + v * vector_numbers;
      const Pack<float, 4> halves[2] = {load_pack<4>(x), load_pack<4>(x + 4)};
#pragma unroll
      for (int term = 0; term < terms; ++term) {
        Pack<unsigned, 4> vector;
#pragma unroll
        for (int j = 0; j < 4; ++j)
          vector.of[j] = bf16_term_of(halves[j / 2].of[j % 2 * 2], halves[j / 2].of[j % 2 * 2 + 1], term);
        const int place = v / 8 * Shape::panel_bytes + k * tile_row_bytes + (in_panel ^ k % 8) * 16;
        store_pack(vector, reinterpret_cast<unsigned*>(memory.tile(number, term) + place));
      }
    }
  }
  __device__ __forceinline__ void run() const {
    constexpr int barrier = 1;
    for (int number = 0; number < stages - 1; ++number) fetch_chunk(number);
    for (int number = 0; number < chunks; ++number) {
      fetch_chunk(number + stages - 1);
      ptx::cp_async_wait<stages - 1>();
      named_barrier<maker_threads>(barrier);  // the numbers that others fetched
      if (number >= tile_sets) memory.wait(memory.empty, number - tile_sets, tile_sets);
      split(number);
      ptx::fence_proxy_async();
      ptx::mbarrier_arrive(memory.full + number % tile_sets);
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

  static __device__ __forceinline__ int g() { return threadIdx.x % warp_size / 4; }
  static __device__ __forceinline__ int l() { return threadIdx.x % 4; }
  static __device__ __forceinline__ int first_row() { return threadIdx.x / warp_size * 16; }

  __device__ __forceinline__ void split(int number, int step, Left& left) const {
#pragma unroll
    for (int place = 0; place < 4; ++place) {
      const int column = step * depth + 2 * l() + place / 2 * 8;
      const float* const x =
          memory.left(number) + column * Shape::left_stride + first_row() + g() + place % 2 * 8;
#pragma unroll
      for (int term = 0; term < terms; ++term)
        left[term][place] = bf16_term_of(x[0], x[Shape::left_stride], term);
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
  /// totals += the sums over all chunks.
  __device__ __forceinline__ void run(int chunks, Sums& totals) const {
    constexpr int steps = chunk / depth;
    Left left[steps];
    Sums sums = {};
    for (int first = 0; first < chunks; first += short_sum) {
      const int end = min(first + short_sum, chunks);
      for (int number = first; number < end; ++number) {
        memory.wait(memory.full, number, tile_sets);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
          // Until the products that read these operands, of the chunk before, are done.
          wgmma::wait<steps - 1>();
          if (step == steps - 1 && number > 0) ptx::mbarrier_arrive(memory.empty + (number - 1) % tile_sets);
          split(number, step, left[step]);
          multiply(number, step, left[step], sums);
        }
        ptx::mbarrier_arrive(memory.read + number % stages);
      }
      wait(sums);
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

/// Block (i, j, k): rows of range i of a, those of range j of b, columns of range k of both. `Width` divides
/// their numbers of rows, and columns begin at so many floats.
template <class Shape, int Width>
__global__ void __launch_bounds__(Shape::threads, 1) split_gemm_kernel(Arguments arguments) {
  const MatrixView<const float>&a = arguments.a, &b = arguments.b;
  const Index row = Index{blockIdx.x} * Shape::rows, column = Index{blockIdx.y} * Shape::columns,
              first = Index{blockIdx.z} * arguments.depth_of_block,
              end = min(first + arguments.depth_of_block, a.cols);
  const int chunks = static_cast<int>((end - first + chunk - 1) / chunk);
  __shared__ std::uint64_t barriers[2 * tile_sets + stages];
  unsigned char* const begin = dynamic_shared_memory();
  unsigned char* const tiles =
      begin + (tile_alignment - ptx::shared_address(begin) % tile_alignment) % tile_alignment;
  const Memory<Shape> memory{
      .tiles = tiles,
      .stages_of_numbers = reinterpret_cast<float*>(tiles + tile_sets * terms * Shape::tile_bytes),
      .full = barriers,
      .empty = barriers + tile_sets,
      .read = barriers + 2 * tile_sets};
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * tile_sets + stages; ++i)
      ptx::mbarrier_initialize(barriers + i, i < tile_sets ? maker_threads : Shape::groups * group_threads);
  }
  __syncthreads();

  if (threadIdx.x >= Shape::groups * group_threads) {
    wgmma::release_registers<Shape::maker_registers>();
    const int thread = static_cast<int>(threadIdx.x) - Shape::groups * group_threads;
    Maker<Shape, Width>{memory, arguments, row, column, first, end, chunks, thread}.run();
    return;
  }
  wgmma::take_registers<Shape::registers>();
  using Own = Multiplier<Shape>;
  typename Own::Sums totals = {};
  Own{memory}.run(chunks, totals);
  float* const out = arguments.partial + Index{blockIdx.z} * b.rows * a.rows;
#pragma unroll
  for (int j = 0; j < Shape::columns / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Index m = row + Own::first_row() + Own::g() + i / 2 * 8,
                  n = column + 8 * j + 2 * Own::l() + i % 2;
      if (m < a.rows && n < b.rows) out[n * a.rows + m] = totals[j][i];
    }
  }
}

/// Its shared memory says what its code was compiled for: a GPU takes the code that is nearest to it.
constexpr std::size_t bytes_without = 1024;
__global__ void tell_instructions() {
  __shared__ volatile char memory[bytes_without * (wgmma::has_wgmma ? 2 : 1)];
  memory[threadIdx.x] = 0;
}

bool has_instructions() {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, tell_instructions));
  return attributes.sharedSizeBytes > bytes_without;
}

/// Columns of a block, and blocks along the columns.
struct Division {
  Index depth_of_block, parts;
};

Division divide(Index tiles, Index depth_of_sums) {
  const Index chunks = (depth_of_sums + chunk - 1) / chunk, most = std::max<Index>(1, enough_blocks / tiles);
  const Index depth_of_block = (chunks + most - 1) / most * chunk;
  return {depth_of_block, (depth_of_sums + depth_of_block - 1) / depth_of_block};
}

template <class Shape, int Width>
void start(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
           MatrixView<float> c) {
  Context& gpu = context(c.device);
  const Division division = divide(Shape::tiles(a.rows, b.rows), a.cols);
  const Index count = a.rows * b.rows;
  float* const partial = gpu.scratch<float>(static_cast<std::size_t>(division.parts * count));
  launch(gpu, split_gemm_kernel<Shape, Width>,
         {.grid = dim3(blocks_for(a.rows, Shape::rows), blocks_for(b.rows, Shape::columns),
                       grid_size(division.parts)),
          .block = Shape::threads,
          .shared = Shape::shared_bytes},
         Arguments{a, b, division.depth_of_block, partial});
  sum_partials(gpu, partial, division.parts, count, [=] __device__(Index i, float sum) {
    float& to = c.data[i / c.rows * c.stride + i % c.rows];
    to = alpha * sum + (beta == 0 ? 0 : beta * to);
  });
}

template <class Shape>
void start_aligned(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
                   MatrixView<float> c) {
  const auto has_packs = [&](Index width) {
    const auto has = [&](const MatrixView<const float>& m) {
      return m.rows % width == 0 && m.stride % width == 0 &&
             reinterpret_cast<std::uintptr_t>(m.data) % (width * sizeof(float)) == 0;
    };
    return has(a) && has(b);
  };
  if (has_packs(4)) return start<Shape, 4>(alpha, a, b, beta, c);
  if (has_packs(2)) return start<Shape, 2>(alpha, a, b, beta, c);
  start<Shape, 1>(alpha, a, b, beta, c);
}

using Square = Shape<2, 128>;
using Wide = Shape<3, 96>;

/// Numbers of the results with what pads them to whole tiles.
template <class Shape>
Index padded(Index rows, Index cols) {
  return Shape::tiles(rows, cols) * Shape::rows * Shape::columns;
}

bool is_wide(Index rows, Index cols) { return padded<Wide>(rows, cols) < padded<Square>(rows, cols); }

}  // namespace

bool takes_split_gemm(Device device, Index rows, Index cols, Index depth) {
  // Below, a kernel more and the parts cost as much as is saved.
  constexpr double fewest_products = 0x1p31;
  constexpr Index least_depth = 4096;
  const double products = static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(depth);
  if (depth < least_depth || products < fewest_products) return false;
  if (2 * std::min(padded<Square>(rows, cols), padded<Wide>(rows, cols)) > 3 * rows * cols) return false;
  const Index tiles = is_wide(rows, cols) ? Wide::tiles(rows, cols) : Square::tiles(rows, cols);
  const Index parts = divide(tiles, depth).parts, blocks = tiles * parts;
  if (parts * rows * cols > max_partial_sums) return false;
  // Where a tenth of a large GPU would wait for the last blocks, cuBLAS divides better.
  const Index turns = (blocks + enough_blocks - 1) / enough_blocks;
  if (10 * blocks < 9 * turns * enough_blocks) return false;
  context(device);  // makes it the current one
  return has_instructions();
}

void split_gemm(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
                MatrixView<float> c) {
  assert(a.cols == b.cols && a.cols > 0 && a.rows == c.rows && b.rows == c.cols);
  if (is_wide(a.rows, b.rows)) return start_aligned<Wide>(alpha, a, b, beta, c);
  start_aligned<Square>(alpha, a, b, beta, c);
}

}  // namespace orthornn::cuda
