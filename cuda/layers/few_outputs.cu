// The gradients of maps of many vectors to few numbers, as a readout of classes is. Products of matrices read
// the vectors and write their gradients at a third of the speed of the memory. Here a thread has one or two
// inputs, of which it keeps the weights and their gradients, and goes over vectors.

#include <algorithm>
#include <bit>
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

// Reads of a thread that are on their way. Without them it would wait for the memory at each vector.
constexpr int reads_ahead = 3;

// Threads of a block, and rows of them, which share the vectors.
constexpr unsigned most_threads = 256, most_rows = 4;
// Vectors whose gradients lie in shared memory, and vectors of a thread that are read at once.
constexpr int vectors_of_tile = 64, vectors_of_read = 4;
static_assert(vectors_of_tile >= reads_ahead * vectors_of_read * most_rows,
              "a tile arrives within the one before");
// As many blocks as a large GPU runs at the same time. Not this one: the order of the sums depends on the
// sizes alone.
constexpr Index most_blocks = 384;

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
  const Index max_blocks = std::min(most_blocks, max_partial_sums / (y * outputs * columns));
  const Index vectors_of_block = std::max<Index>((count - 1) / max_blocks + 1, vectors_of_tile);
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
