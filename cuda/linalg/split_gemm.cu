#include <algorithm>
#include <cstdint>

#include "cuda/core/bf16_terms.cuh"
#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/core/pack.cuh"
#include "cuda/core/wgmma.cuh"
#include "cuda/linalg/split_gemm.hpp"
#include "cuda/linalg/sum_partials.cuh"

// A block multiplies `rows` rows of a by `columns` rows of b, over a part of their columns, `chunk` at a
// time:
//
//   fetch      numbers of both come to shared memory, two chunks ahead
//   split      those of b become three tiles of bfloat16, those of a three operands in registers
//   multiply   six products of the terms, those above 2^-24 of the whole; meanwhile the next chunk is split
//
// Tensor cores cut off what they add below the last bit of a sum. So sums are short: every `short_sum` chunks
// threads add them to sums of their own. The blocks' parts are added at last, by sum_partials.

namespace orthornn::cuda {
namespace {

constexpr int terms = 3;
constexpr int chunk = 32;
/// Columns of an instruction.
constexpr int depth = 16;
/// Chunks of which the numbers are in shared memory.
constexpr int stages = 3;
constexpr int short_sum = 4;
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

/// A block of `Groups` warpgroups, each with 64 rows.
template <int Groups, int Columns>
struct Shape {
  static constexpr int rows = 64 * Groups, columns = Columns, threads = 128 * Groups;
  /// From column to column of a. So padded, lanes that read two columns of eight rows meet different banks.
  static constexpr int left_stride = rows + 4;
  static constexpr int stage_numbers = chunk * (left_stride + columns);
  static constexpr int panel_bytes = chunk * tile_row_bytes;
  static constexpr int tile_bytes = (columns + panel_columns - 1) / panel_columns * panel_bytes;
  static constexpr std::size_t shared_bytes =
      tile_alignment + 2 * terms * tile_bytes + stages * stage_numbers * sizeof(float);

  static Index tiles(Index a_rows, Index b_rows) {
    return Index{blocks_for(a_rows, rows)} * blocks_for(b_rows, columns);
  }
};

/// Starts copying `Size` rows of a chunk of a matrix, from `row` and `column` on. What lies beyond the
/// matrix, or beyond column `end`, is 0.
template <int Width, int Size, int Stride, int Threads>
__device__ __forceinline__ void fetch(float* to, const MatrixView<const float>& from, Index row, Index column,
                                      Index end) {
  constexpr int packs = Size / Width;
  const float* const begin = from.data + column * from.stride + row;
  const int rows = static_cast<int>(min(Index{Size}, from.rows - row)),
            columns = static_cast<int>(min(Index{chunk}, end - column));
#pragma unroll
  for (int first = 0; first < chunk * packs; first += Threads) {
    const int i = first + static_cast<int>(threadIdx.x), k = i / packs, m = i % packs * Width;
    if (chunk * packs % Threads != 0 && i >= chunk * packs) break;
    float* const target = to + k * Stride + m;
    if (k < columns && m < rows) {
      ptx::cp_async<Width* static_cast<int>(sizeof(float))>(target, begin + k * from.stride + m);
    } else {
      store_pack(Pack<float, Width>{}, target);
    }
  }
}

/// What a thread of a block does with a chunk.
template <class Shape>
struct Thread {
  /// Operands of the instructions of a chunk: rows g and g + 8 of the warp's 16, where lane = 4 g + l.
  using Left = unsigned[chunk / depth][terms][4];
  using Sums = float[Shape::columns / 8][4];

  unsigned char* tiles;
  float* stage_memory;

  /// Of two sets of tiles the one of a chunk.
  __device__ __forceinline__ unsigned char* tile(int set, int term) const {
    return tiles + (set * terms + term) * Shape::tile_bytes;
  }
  __device__ __forceinline__ float* stage(Index number) const {
    return stage_memory + number % stages * Shape::stage_numbers;
  }
  static __device__ __forceinline__ int g() { return threadIdx.x % warp_size / 4; }
  static __device__ __forceinline__ int l() { return threadIdx.x % 4; }
  static __device__ __forceinline__ int first_row() { return threadIdx.x / warp_size * 16; }

  __device__ __forceinline__ void split_left(const float* numbers, Left& left) const {
#pragma unroll
    for (int i = 0; i < chunk / depth * 4; ++i) {
      const int step = i / 4, place = i % 4, column = step * depth + 2 * l() + place / 2 * 8;
      const float* const x = numbers + column * Shape::left_stride + first_row() + g() + place % 2 * 8;
#pragma unroll
      for (int term = 0; term < terms; ++term)
        left[step][term][place] = bf16_term_of(x[0], x[Shape::left_stride], term);
    }
  }
  __device__ __forceinline__ void split_right(const float* numbers, int set) const {
    constexpr int vectors = Shape::columns / vector_numbers;
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < chunk * vectors; i += Shape::threads) {
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
        store_pack(vector, reinterpret_cast<unsigned*>(tile(set, term) + place));
      }
    }
  }
  /// Starts sums += the products of a chunk.
  __device__ __forceinline__ void multiply(int set, const Left& left, Sums& sums) const {
    wgmma::fence();
#pragma unroll
    for (int step = 0; step < chunk / depth; ++step) {
#pragma unroll
      for (int i = 0; i < terms; ++i) {
#pragma unroll
        for (int j = 0; i + j < terms; ++j) {
          const std::uint64_t right = wgmma::operand(tile(set, j), tile_row_bytes, Shape::panel_bytes) +
                                      step * depth * tile_row_bytes / 16;
          wgmma::multiply<Shape::columns, true, true>(sums, left[step][i], right);
        }
      }
    }
    wgmma::commit();
  }
  /// Waits for the products that were started.
  __device__ __forceinline__ void wait(Sums& sums) const {
    wgmma::wait<0>();
#pragma unroll
    for (auto& tile : sums) {
#pragma unroll
      for (float& x : tile) asm volatile("" : "+f"(x)::"memory");  // nobody reads it before
    }
  }
};

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

/// Block (i, j, k): rows of range i of a, those of range j of b, columns of range k of both. `Width` divides
/// their numbers of rows, and columns begin at so many floats.
template <class Shape, int Width>
__global__ void __launch_bounds__(Shape::threads, 1) split_gemm_kernel(Arguments arguments) {
  const MatrixView<const float>&a = arguments.a, &b = arguments.b;
  const Index row = Index{blockIdx.x} * Shape::rows, column = Index{blockIdx.y} * Shape::columns,
              first = Index{blockIdx.z} * arguments.depth_of_block,
              end = min(first + arguments.depth_of_block, a.cols);
  const int chunks = static_cast<int>((end - first + chunk - 1) / chunk);
  unsigned char* const memory = dynamic_shared_memory();
  const unsigned before = (tile_alignment - ptx::shared_address(memory) % tile_alignment) % tile_alignment;
  unsigned char* const tiles = memory + before;
  const Thread<Shape> own{tiles, reinterpret_cast<float*>(tiles + 2 * terms * Shape::tile_bytes)};
  const auto start_fetch = [&](int number) {
    if (number < chunks) {
      const Index k = first + Index{number} * chunk;
      float* const stage = own.stage(number);
      fetch<Width, Shape::rows, Shape::left_stride, Shape::threads>(stage, a, row, k, end);
      fetch<Width, Shape::columns, Shape::columns, Shape::threads>(stage + chunk * Shape::left_stride, b,
                                                                   column, k, end);
    }
    ptx::cp_async_commit();
  };
  typename Thread<Shape>::Left left[2];
  typename Thread<Shape>::Sums sums = {}, totals = {};
  const auto split = [&](int number, int set) {
    ptx::cp_async_wait<stages - 2>();
    __syncthreads();
    const float* const stage = own.stage(number);
    own.split_right(stage + chunk * Shape::left_stride, set);
    own.split_left(stage, left[set]);
  };
  // Products see what all threads have written to tiles, and their stage is read.
  const auto publish = [] {
    ptx::fence_proxy_async();
    __syncthreads();
  };

#pragma unroll
  for (int number = 0; number < stages - 1; ++number) start_fetch(number);
  split(0, 0);
  start_fetch(stages - 1);
  publish();
  for (int number = 0; number < chunks; number += 2) {
#pragma unroll
    for (int set = 0; set < 2; ++set) {  // its number must be known here, or registers become memory
      const int now = number + set;
      if (now >= chunks) break;
      own.multiply(set, left[set], sums);
      if (now + 1 < chunks) split(now + 1, 1 - set);
      start_fetch(now + stages);
      own.wait(sums);
      if (now % short_sum == short_sum - 1) add_sums(totals, sums);
      publish();
    }
  }
  add_sums(totals, sums);

  float* const out = arguments.partial + Index{blockIdx.z} * b.rows * a.rows;
#pragma unroll
  for (int j = 0; j < Shape::columns / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Index m = row + own.first_row() + own.g() + i / 2 * 8, n = column + 8 * j + 2 * own.l() + i % 2;
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

template <class Shape, int Width>
void start(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
           MatrixView<float> c) {
  Context& gpu = context(c.device);
  const Index tiles = Shape::tiles(a.rows, b.rows);
  const Index parts = std::max<Index>(1, enough_blocks / tiles);
  const Index chunks_of_block = ((a.cols + chunk - 1) / chunk + parts - 1) / parts;
  const Index depth_of_block = chunks_of_block * chunk, count = a.rows * b.rows;
  const unsigned blocks = blocks_for(a.cols, depth_of_block);
  float* const partial = gpu.scratch<float>(static_cast<std::size_t>(blocks * count));
  launch(gpu, split_gemm_kernel<Shape, Width>,
         {.grid = dim3(blocks_for(a.rows, Shape::rows), blocks_for(b.rows, Shape::columns), blocks),
          .block = Shape::threads,
          .shared = Shape::shared_bytes},
         Arguments{a, b, depth_of_block, partial});
  sum_partials(gpu, partial, blocks, count, [=] __device__(Index i, float sum) {
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

}  // namespace

bool takes_split_gemm(Device device, Index rows, Index cols, Index depth) {
  // Below, a kernel more and the parts cost as much as is saved.
  constexpr double fewest_products = 0x1p31;
  constexpr Index least_depth = 4096;
  const double products = static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(depth);
  if (depth < least_depth || products < fewest_products) return false;
  if (2 * std::min(padded<Square>(rows, cols), padded<Wide>(rows, cols)) > 3 * rows * cols) return false;
  context(device);  // makes it the current one
  return has_instructions();
}

void split_gemm(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
                MatrixView<float> c) {
  if (padded<Wide>(a.rows, b.rows) < padded<Square>(a.rows, b.rows))
    return start_aligned<Wide>(alpha, a, b, beta, c);
  start_aligned<Square>(alpha, a, b, beta, c);
}

}  // namespace orthornn::cuda
