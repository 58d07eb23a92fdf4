// Maps of many vectors to at most 16 numbers. A product of matrices takes two to four times as long as the
// memory needs for these shapes.

#include <algorithm>
#include <type_traits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/core/reduce_scatter.cuh"
#include "cuda/core/sum_partial_rows.cuh"
#include "cuda/layers/few_outputs.hpp"

namespace orthornn::cuda {
namespace {

/// Lanes share the inputs.
constexpr Index fewest_inputs = warp_size;
/// The most bytes of the weights in shared memory.
constexpr std::size_t most_shared = 48 << 10;
/// A smaller batch does not fill the GPU.
constexpr Index many_vectors = 4096;

/// Calls body(constant) with a number of outputs that these fit in: kernels have their loops unrolled.
void with_room_for(Index outputs, const auto& body) {
  static_assert(most_few_outputs == 16);
  if (outputs <= 4) return body(std::integral_constant<int, 4>());
  if (outputs <= 8) return body(std::integral_constant<int, 8>());
  if (outputs <= 12) return body(std::integral_constant<int, 12>());
  body(std::integral_constant<int, 16>());
}

// y = W x + b

/// A warp has so many vectors at a time: a weight that is read from shared memory is used for all of them.
constexpr int vectors_of_warp = 4;
constexpr int threads = 256;

/// Lanes have neighbouring inputs, and scatter their sums over the warp.
template <int Outputs, class T>
__global__ void __launch_bounds__(threads)
    map_to_few_kernel(const T* __restrict__ weights, const T* __restrict__ bias,
                      const T* __restrict__ vectors, T* __restrict__ y, int inputs, int outputs,
                      Index count) {
  T* const shared = reinterpret_cast<T*>(dynamic_shared_memory());  // [Outputs, inputs]
  for (int i = static_cast<int>(threadIdx.x); i < Outputs * inputs; i += threads)
    shared[i] = i < outputs * inputs ? weights[i] : T{0};
  __syncthreads();
  const unsigned lane = threadIdx.x % warp_size;
  const Index warps = static_cast<Index>(gridDim.x) * (threads / warp_size);
  for (Index group = grid_thread() / warp_size; group * vectors_of_warp < count; group += warps) {
    const Index first = group * vectors_of_warp;
    T sums[vectors_of_warp * Outputs] = {};
#pragma unroll 2
    for (int i = static_cast<int>(lane); i < inputs; i += static_cast<int>(warp_size)) {
      T x[vectors_of_warp];
#pragma unroll
      for (int v = 0; v < vectors_of_warp; ++v)
        x[v] = first + v < count ? vectors[(first + v) * inputs + i] : T{0};
#pragma unroll
      for (int m = 0; m < Outputs; ++m) {
        const T weight = shared[m * inputs + i];
#pragma unroll
        for (int v = 0; v < vectors_of_warp; ++v) sums[v * Outputs + m] += weight * x[v];
      }
    }
    using Scatter = ReduceScatter<vectors_of_warp * Outputs, static_cast<int>(warp_size)>;
    Scatter::run(sums, lane);
    const int own = Scatter::first(lane), number = Scatter::number(lane);
#pragma unroll
    for (int i = 0; i < Scatter::left; ++i) {
      const int m = (own + i) % Outputs;
      const Index vector = first + (own + i) / Outputs;
      if (i >= number || m >= outputs || vector >= count) continue;
      y[vector * outputs + m] = sums[i] + (bias == nullptr ? T{0} : bias[m]);
    }
  }
}

// The gradient of W

/// A block has this many inputs, and so many threads for each: each takes some of the vectors.
constexpr int inputs_of_block = 64, parts = 4;
/// Vectors whose gradients are in shared memory at a time, and those of a block.
constexpr int vectors_at_once = 32;
constexpr Index vectors_of_block = 512;

/// partial [gridDim.x, outputs, inputs]
template <int Outputs, class T>
__global__ void __launch_bounds__(inputs_of_block* parts)
    few_weights_kernel(const T* __restrict__ g, const T* __restrict__ vectors, T* __restrict__ partial,
                       int inputs, int outputs, Index count) {
  __shared__ T gradients[vectors_at_once][Outputs];
  __shared__ T shared[parts][inputs_of_block];
  const int input = static_cast<int>(blockIdx.y) * inputs_of_block + static_cast<int>(threadIdx.x),
            part = static_cast<int>(threadIdx.y),
            thread = part * inputs_of_block + static_cast<int>(threadIdx.x);
  const Index begin = blockIdx.x * vectors_of_block,
              end = begin + vectors_of_block < count ? begin + vectors_of_block : count;
  T sums[Outputs] = {};
  for (Index first = begin; first < end; first += vectors_at_once) {
    __syncthreads();
    for (int i = thread; i < vectors_at_once * Outputs; i += inputs_of_block * parts) {
      const int v = i / Outputs, m = i % Outputs;
      const bool is_there = m < outputs && first + v < end;
      gradients[v][m] = is_there ? g[(first + v) * outputs + m] : T{0};
    }
    __syncthreads();
    constexpr int own = vectors_at_once / parts;
    T x[own];
#pragma unroll
    for (int i = 0; i < own; ++i) {
      const Index v = first + i * parts + part;
      x[i] = input < inputs && v < end ? vectors[v * inputs + input] : T{0};
    }
#pragma unroll
    for (int i = 0; i < own; ++i) {
#pragma unroll
      for (int m = 0; m < Outputs; ++m) sums[m] += gradients[i * parts + part][m] * x[i];
    }
  }
#pragma unroll
  for (int m = 0; m < Outputs; ++m) {
    __syncthreads();
    shared[part][threadIdx.x] = sums[m];
    __syncthreads();
    if (part != 0 || input >= inputs || m >= outputs) continue;
    T sum = 0;
    for (int i = 0; i < parts; ++i) sum += shared[i][threadIdx.x];
    partial[(static_cast<Index>(blockIdx.x) * outputs + m) * inputs + input] = sum;
  }
}

}  // namespace

template <class T>
bool takes_few_outputs(Index inputs, Index outputs, Index vectors) {
  const Index rounded = (outputs + 3) / 4 * 4;
  return outputs <= most_few_outputs && inputs >= fewest_inputs && vectors >= many_vectors &&
         inputs <= static_cast<Index>(most_shared / sizeof(T)) / rounded;
}

template <class T>
void map_to_few(TensorView<const T> weights, TensorView<const T> bias, TensorView<const T> vectors,
                TensorView<T> y) {
  const Context& gpu = context(y.device());
  const Index outputs = weights.shape()[0], inputs = weights.shape()[1], count = y.size() / outputs;
  constexpr Index blocks_of_multiprocessor = 8;
  const Index groups = (count + vectors_of_warp - 1) / vectors_of_warp;
  const Index most = blocks_of_multiprocessor * gpu.multiprocessors();
  with_room_for(outputs, [&](auto room) {
    launch(gpu, map_to_few_kernel<room, T>,
           {.grid = static_cast<unsigned>(std::min<Index>(blocks_for(groups, threads / warp_size), most)),
            .block = threads,
            .shared = sizeof(T) * static_cast<std::size_t>(room * inputs)},
           weights.data(), bias.empty() ? nullptr : bias.data(), vectors.data(), y.data(),
           static_cast<int>(inputs), static_cast<int>(outputs), count);
  });
}

template <class T>
void few_weights_gradient(TensorView<const T> g, TensorView<const T> vectors, TensorView<T> d_weights) {
  Context& gpu = context(g.device());
  const Index outputs = d_weights.shape()[0], inputs = d_weights.shape()[1], count = g.size() / outputs;
  const unsigned blocks = blocks_for(count, vectors_of_block);
  T* const partial = gpu.scratch<T>(static_cast<std::size_t>(blocks * d_weights.size()));
  with_room_for(outputs, [&](auto room) {
    launch(gpu, few_weights_kernel<room, T>,
           {.grid = dim3(blocks, blocks_for(inputs, inputs_of_block)), .block = dim3(inputs_of_block, parts)},
           g.data(), vectors.data(), partial, static_cast<int>(inputs), static_cast<int>(outputs), count);
  });
  sum_partial_rows<T>(gpu, 1, partial, blocks, d_weights.size(), 0, d_weights.data());
}

#define ORTHORNN_INSTANTIATE(T)                                                                              \
  template bool takes_few_outputs<T>(Index, Index, Index);                                                   \
  template void map_to_few<T>(TensorView<const T>, TensorView<const T>, TensorView<const T>, TensorView<T>); \
  template void few_weights_gradient<T>(TensorView<const T>, TensorView<const T>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
