// Maps of many vectors to few numbers, as a readout of classes is. A product of matrices would read the
// vectors at a third of the speed of the memory, once forward and twice backward. Here they are read once
// each way.
//
// Forward, a block goes over tiles of vectors and of inputs in shared memory, and a thread has the sums of
// two vectors. Backward, a thread has one or two inputs, of which it keeps the weights and their gradients,
// and goes over vectors.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "cuda/core/launch.hpp"
#include "cuda/core/pack.cuh"
#include "cuda/core/ptx.cuh"
#include "cuda/core/read_ahead.cuh"
#include "cuda/layers/few_outputs.hpp"
#include "cuda/linalg/sum_partials.cuh"

namespace orthornn::cuda {
namespace {

// Forward: threads of a block, vectors of a thread, inputs of a tile, and blocks that a multiprocessor has
// room for.
constexpr int map_threads = 64, vectors_of_thread = 4, tile_vectors = map_threads * vectors_of_thread,
              tile_inputs = 32, map_blocks = 3;

// Reads of a thread that are on their way backward. Without them it would wait for the memory at each vector.
constexpr int reads_ahead = 3;

// Backward: threads of a block, and rows of them, which share the vectors.
constexpr unsigned most_threads = 256, most_rows = 4;
// Vectors whose gradients lie in shared memory, and vectors of a thread that are read at once.
constexpr int vectors_of_tile = 64, vectors_of_read = 4;
static_assert(vectors_of_tile >= reads_ahead * vectors_of_read * most_rows,
              "a tile arrives within the one before");
// As many blocks as a large GPU runs at the same time. Not this one: the order of the sums depends on the
// sizes alone.
constexpr Index most_blocks = 384;

/// Inputs of some vectors and of the weights, [vectors and outputs][inputs], in packs of Width. Rows have one
/// pack more than they need, so that the same pack of neighbouring rows lies in different banks.
template <int Outputs, int Width>
struct InputTile {
  static constexpr int packs = tile_inputs / Width, rows = tile_vectors + Outputs;
  using Inputs = Pack<float, Width>;

  Inputs of[rows][packs + 1];

  /// Starts copying inputs first_input .. of `count` vectors, and of the weights. What lies beyond is 0.
  __device__ __forceinline__ void fetch(const float* vectors, int count, const float* weights, int outputs,
                                        Index inputs, Index first_input) {
    constexpr int rows_at_once = map_threads / packs;
    const int pack = static_cast<int>(threadIdx.x) % packs, first_row = static_cast<int>(threadIdx.x) / packs;
    const Index input = first_input + pack * Width;
    const bool exists = input < inputs;
    const auto copy = [&](const float* from, int first, int row_count, Inputs* to) {
      for (int row = first_row; row < row_count; row += rows_at_once, from += rows_at_once * inputs) {
        Inputs* const place = to + row * (packs + 1) + pack;
        if (exists && row < first) {
          ptx::cp_async<sizeof(Inputs)>(place, from);
        } else {
          *place = Inputs{};
        }
      }
    };
    copy(vectors + first_row * inputs + input, count, count, of[0]);
    copy(weights + first_row * inputs + input, outputs, Outputs, of[tile_vectors]);
  }
};

/// y [count, outputs] <- W x + b; a block has `vectors_of_block` vectors.
template <int Outputs, int Width>
__global__ void __launch_bounds__(map_threads, map_blocks)
    map_to_few_kernel(const float* __restrict__ weights, const float* __restrict__ bias,
                      const float* __restrict__ vectors, float* __restrict__ y, Index inputs, int outputs,
                      Index count, Index vectors_of_block) {
  using Tile = InputTile<Outputs, Width>;
  auto* const tiles = reinterpret_cast<Tile*>(dynamic_shared_memory());  // two in turn
  const Index begin = blockIdx.x * vectors_of_block;
  const Index end = begin + vectors_of_block < count ? begin + vectors_of_block : count;
  const auto vectors_from = [&](Index first) {
    return static_cast<int>(end - first < tile_vectors ? end - first : tile_vectors);
  };
  // The place of the next tile that is fetched.
  Index next_vector = begin, next_input = 0;
  const auto fetch = [&](int buffer) {
    if (next_vector < end) {
      tiles[buffer].fetch(vectors + next_vector * inputs, vectors_from(next_vector), weights, outputs, inputs,
                          next_input);
    }
    ptx::cp_async_commit();
    next_input += tile_inputs;
    if (next_input >= inputs) {
      next_input = 0;
      next_vector += tile_vectors;
    }
  };
  int buffer = 0;
  fetch(buffer);
  for (Index first = begin; first < end; first += tile_vectors) {
    const int here = vectors_from(first);
    float sums[vectors_of_thread][Outputs] = {};
    for (Index first_input = 0; first_input < inputs; first_input += tile_inputs, buffer ^= 1) {
      fetch(buffer ^ 1);
      ptx::cp_async_wait<1>();
      __syncthreads();
      const Tile& tile = tiles[buffer];
      if (static_cast<int>(threadIdx.x / warp_size * warp_size) < here) {
#pragma unroll 4
        for (int p = 0; p < Tile::packs; ++p) {
          typename Tile::Inputs x[vectors_of_thread];
#pragma unroll
          for (int v = 0; v < vectors_of_thread; ++v) x[v] = tile.of[threadIdx.x + v * map_threads][p];
#pragma unroll
          for (int c = 0; c < Outputs; ++c) {
            const typename Tile::Inputs w = tile.of[tile_vectors + c][p];
#pragma unroll
            for (int v = 0; v < vectors_of_thread; ++v) {
#pragma unroll
              for (int i = 0; i < Width; ++i) sums[v][c] = fmaf(w.of[i], x[v].of[i], sums[v][c]);
            }
          }
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int v = 0; v < vectors_of_thread; ++v) {
      const int own = static_cast<int>(threadIdx.x) + v * map_threads;
      if (own >= here) break;
      float* const out = y + (first + own) * outputs;
#pragma unroll
      for (int c = 0; c < Outputs; ++c) {
        if (c < outputs) out[c] = sums[v][c] + (bias != nullptr ? bias[c] : 0.0f);
      }
    }
  }
}

struct FewBackward {
  const float* weights;
  const float* vectors;
  const float* g;
  float* d_vectors;  // or null
  bool adds;
  Index inputs;
  int outputs;
  Index count;
  Index vectors_of_block;
  // [blocks, blockDim.y, outputs, inputs + 1]
  float* partial;
};

/// The gradients of the outputs of a tile of vectors, of two tiles in turn; 0 beyond the outputs and vectors.
template <int Outputs>
struct OutputTiles {
  using Pair = Pack<float, 2>;
  Pair of[2][vectors_of_tile][Outputs / 2];

  /// Starts copying those of the vectors first .. end - 1; all threads of a block.
  __device__ __forceinline__ void fetch(const FewBackward& a, int tile, Index first, Index end) {
    const int count = vectors_of_tile * a.outputs;
    for (int k = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); k < count;
         k += static_cast<int>(blockDim.x * blockDim.y)) {
      const int v = k / a.outputs, c = k % a.outputs;
      float* const place = &of[tile][v][c / 2].of[c % 2];
      if (first + v < end) {
        ptx::cp_async<sizeof(float)>(place, a.g + first * a.outputs + k);
      } else {
        *place = 0;
      }
    }
  }
};

/// The vectors that a thread reads at once.
template <int Width>
using BackwardReads = ReadAhead<Pack<float, Width>, vectors_of_read, reads_ahead>;

/// Block (i, j): vectors of range i, inputs of range j; threads of one threadIdx.y share vectors. The bias is
/// the weight of input number N, which is 1.
template <int Outputs, int Width>
__global__ void __launch_bounds__(most_threads) map_to_few_backward_kernel(FewBackward a) {
  using Inputs = Pack<float, Width>;
  __shared__ OutputTiles<Outputs> tiles;
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const Index input = (static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x) * Width;
  const bool exists = input < a.inputs;
  Inputs w[Outputs] = {}, sums[Outputs] = {};
#pragma unroll
  for (int c = 0; c < Outputs; ++c) {
    if (c < a.outputs && exists) w[c] = load_pack<Width>(a.weights + c * a.inputs + input);
  }
  for (unsigned k = thread; k < 2 * vectors_of_tile * Outputs; k += blockDim.x * blockDim.y)
    (&tiles.of[0][0][0].of[0])[k] = 0;
  Inputs absent{};
  if (input == a.inputs) absent.of[0] = 1;
  __syncthreads();

  // This thread's vectors are first, first + blockDim.y, .. < end.
  const Index begin = blockIdx.x * a.vectors_of_block;
  const Index end = begin + a.vectors_of_block < a.count ? begin + a.vectors_of_block : a.count;
  const int stride = static_cast<int>(blockDim.y), stride_of_reads = vectors_of_read * stride;
  const Index step = stride * a.inputs;
  const Index first = begin + threadIdx.y;
  // Those that are left to fetch, and to write.
  int to_fetch = exists && first < end ? static_cast<int>((end - first + stride - 1) / stride) : 0;
  int to_write = a.d_vectors != nullptr ? to_fetch : 0;
  const float* from = a.vectors + first * a.inputs + input;
  float* to = a.d_vectors + first * a.inputs + input;
  BackwardReads<Width> reads(dynamic_shared_memory(), thread, blockDim.x * blockDim.y);
  const auto fetch = [&] {
    reads.fetch(from, step, to_fetch, absent);
    to_fetch -= vectors_of_read;
    from += vectors_of_read * step;
  };
  tiles.fetch(a, 0, begin, end);
  for (int ahead = 0; ahead < reads_ahead; ++ahead) {
    fetch();
    ptx::cp_async_commit();
  }
  int tile = 0;
  for (Index tile_begin = begin; tile_begin < end; tile_begin += vectors_of_tile, tile ^= 1) {
    // The tile has arrived, for it was fetched before the read that is waited for here. Nobody reads the
    // other tile any more.
    ptx::cp_async_wait<reads_ahead - 1>();
    __syncthreads();
    tiles.fetch(a, tile ^ 1, tile_begin + vectors_of_tile, end);
    for (int v = static_cast<int>(threadIdx.y); v < vectors_of_tile;
         v += stride_of_reads, to_write -= vectors_of_read, reads.advance()) {
      fetch();
      reads.next_round();
#pragma unroll
      for (int u = 0; u < vectors_of_read; ++u, to += step) {
        const bool writes = u < to_write;
        const Inputs x = reads[u];
        Inputs d{};
        if (writes && a.adds) d = load_pack<Width>(to);
#pragma unroll
        for (int c = 0; c < Outputs; c += 2) {
          const Pack<float, 2> g = tiles.of[tile][v + u * stride][c / 2];
#pragma unroll
          for (int k = 0; k < 2; ++k) {
#pragma unroll
            for (int i = 0; i < Width; ++i) {
              d.of[i] = fmaf(w[c + k].of[i], g.of[k], d.of[i]);
              sums[c + k].of[i] = fmaf(x.of[i], g.of[k], sums[c + k].of[i]);
            }
          }
        }
        if (writes) store_pack(d, to);
      }
    }
  }
  float* const out =
      a.partial + (static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y) * a.outputs * (a.inputs + 1);
#pragma unroll
  for (int c = 0; c < Outputs; ++c) {
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      if (c < a.outputs && input + i <= a.inputs) out[c * (a.inputs + 1) + input + i] = sums[c].of[i];
    }
  }
}

/// Whether pairs of neighbours can be read at once, at all vectors of this size.
bool has_pairs(Index size, std::initializer_list<const float*> memory) {
  return size % 2 == 0 && std::ranges::all_of(memory, is_aligned_for<2, float>);
}

/// Calls f(outputs, width) with constants: the outputs that a kernel has room for, and the numbers that are
/// read at once.
template <class F>
void with_shape(Index outputs, bool pairs, F f) {
  const auto with_width = [&](auto room) {
    if (pairs) return f(room, std::integral_constant<int, 2>());
    f(room, std::integral_constant<int, 1>());
  };
  if (outputs <= 4) return with_width(std::integral_constant<int, 4>());
  if (outputs <= 10) return with_width(std::integral_constant<int, 10>());
  with_width(std::integral_constant<int, most_outputs>());
}

}  // namespace

void map_to_few(TensorView<const float> weights, TensorView<const float> bias,
                TensorView<const float> vectors, TensorView<float> y) {
  const Context& gpu = context(y.device());
  const Index outputs = weights.shape()[0], inputs = weights.shape()[1], count = y.size() / outputs;
  // As many blocks as run at the same time.
  const Index most = Index{gpu.multiprocessors()} * map_blocks, vectors_of_block = (count - 1) / most + 1;
  with_shape(outputs, has_pairs(inputs, {weights.data(), vectors.data()}), [&](auto room, auto width) {
    launch(gpu, map_to_few_kernel<room, width>,
           {.grid = blocks_for(count, vectors_of_block),
            .block = map_threads,
            .shared = 2 * sizeof(InputTile<room, width>)},
           weights.data(), bias.empty() ? nullptr : bias.data(), vectors.data(), y.data(), inputs,
           static_cast<int>(outputs), count, vectors_of_block);
  });
}

void map_to_few_backward(TensorView<const float> weights, TensorView<const float> vectors,
                         TensorView<const float> g, const FewOutputsGradients& to) {
  Context& gpu = context(g.device());
  const Index outputs = weights.shape()[0], inputs = weights.shape()[1], count = g.size() / outputs;
  const bool pairs = has_pairs(inputs, {weights.data(), vectors.data(), to.vectors.data()});
  // 1. The blocks' sums. The bias is one more input.
  const Index columns = inputs + 1, width = pairs ? 2 : 1;
  const unsigned whole_warps = blocks_for(columns, width * warp_size) * warp_size;
  const unsigned x = std::min(whole_warps, most_threads),
                 y = std::min(most_rows, std::bit_floor(most_threads / x));
  const Index vectors_of_block = std::max<Index>((count - 1) / most_blocks + 1, vectors_of_tile);
  const unsigned blocks = blocks_for(count, vectors_of_block);
  const Index rows = Index{blocks} * y;
  float* const partial = gpu.scratch<float>(static_cast<std::size_t>(rows * outputs * columns));
  const FewBackward arguments{.weights = weights.data(),
                              .vectors = vectors.data(),
                              .g = g.data(),
                              .d_vectors = to.vectors.data(),
                              .adds = to.adds_to_vectors && !to.vectors.empty(),
                              .inputs = inputs,
                              .outputs = static_cast<int>(outputs),
                              .count = count,
                              .vectors_of_block = vectors_of_block,
                              .partial = partial};
  with_shape(outputs, pairs, [&](auto room, auto constant_width) {
    launch(gpu, map_to_few_backward_kernel<room, constant_width>,
           {.grid = dim3(blocks, blocks_for(columns, width * x)),
            .block = dim3(x, y),
            .shared = BackwardReads<constant_width>::bytes(x * y)},
           arguments);
  });
  // 2. The sums of all.
  float* const d_weights = to.weights.data();
  float* const d_bias = to.bias.data();
  sum_partials(gpu, partial, rows, outputs * columns, [=] __device__(Index i, float sum) {
    const Index output = i / columns, input = i % columns;
    if (input < inputs) {
      d_weights[output * inputs + input] = sum;
    } else if (d_bias != nullptr) {
      d_bias[output] = sum;
    }
  });
}

}  // namespace orthornn::cuda
