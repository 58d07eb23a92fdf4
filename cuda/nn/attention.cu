#include <limits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/nn/attention.hpp"

// All products of attention are of small matrices, one for each sequence. A block computes tiles of them:
//
//   weights_kernel, a block for each sequence and tile of 32 queries:
//     1. products [32, S] = left K^T. Forward: left = Q, the scores. Backward: left = dC, the gradients of
//        the weights. Four groups of warps each sum a part of the N terms.
//     2. Each warp changes rows of the products: softmax, or the backward of the softmax.
//   contexts_kernel, a block for each sequence, tile of 32 queries and tile of 32 entries:
//     out [T, N] = products K. Forward: the contexts. Backward: dQ.
//   d_keys_kernel, a block for each sequence, tile of 32 keys and tile of 32 entries:
//     dK = A^T dC + dS^T Q.
//
// Sentences are short: time goes by in waiting for memory, and not in arithmetic. So the numbers of the next
// tiles are on their way while those of these are multiplied, and what lies outside of a matrix is not.
//
// The products are in global memory, where rows of any length fit. Every sum has an order that depends on
// sizes and lengths only.
//
//   shared memory     tiles of the two operands, 32 x 32 each, with a column more against bank conflicts
//   thread (x, y, z)  column x and rows y, y + 8, y + 16, y + 24 of a tile of the result; y is the warp of
//                     its group z

namespace orthornn::cuda {
namespace {

constexpr unsigned tile = 32;
constexpr unsigned warps = 8;
constexpr unsigned rows_of_thread = tile / warps;
constexpr unsigned groups = 4;
static_assert(tile == warp_size);

/// A matrix whose columns are neighbours in memory. It is 0 outside.
template <class T>
struct Window {
  const T* data;
  Index stride;
  Index rows;
  Index columns;

  __device__ __forceinline__ T operator()(Index row, Index column) const {
    return row < rows && column < columns ? data[row * stride + column] : T{0};
  }
};

template <class T>
struct Tiles {
  T left[tile][tile + 1];
  T right[tile][tile + 1];
};

/// Is the operand the transpose of the window?
enum class Operation { as_it_is, transposed };

/// Adds to `sums` those of a tile of left * right over first_term .. first_term + depth - 1; the tile begins
/// at first_row, first_column. All groups of a block call it with the same depth, each with tiles of its own.
template <Operation left_is, Operation right_is, class T>
__device__ void add_product(const Window<T>& left, const Window<T>& right, Index first_row,
                            Index first_column, Index first_term, Index depth, Tiles<T>& tiles,
                            T (&sums)[rows_of_thread]) {
  const unsigned x = threadIdx.x;
  const Index rows = (left_is == Operation::as_it_is ? left.rows : left.columns) - first_row;
  const Index terms = left_is == Operation::as_it_is ? left.columns : left.rows;
  T next_left[rows_of_thread], next_right[rows_of_thread];
  const auto load = [&](Index k) {
#pragma unroll
    for (unsigned i = 0; i < rows_of_thread; ++i) {
      // Neighbouring threads read neighbouring numbers.
      const unsigned y = threadIdx.y + i * warps;
      next_left[i] = left_is == Operation::as_it_is ? left(first_row + y, k + x) : left(k + y, first_row + x);
      next_right[i] =
          right_is == Operation::as_it_is ? right(k + y, first_column + x) : right(first_column + y, k + x);
    }
  };
  load(first_term);
  for (Index k = first_term; k < first_term + depth; k += tile) {
    __syncthreads();  // the tiles before have been read
#pragma unroll
    for (unsigned i = 0; i < rows_of_thread; ++i) {
      const unsigned y = threadIdx.y + i * warps;
      (left_is == Operation::as_it_is ? tiles.left[y][x] : tiles.left[x][y]) = next_left[i];
      (right_is == Operation::as_it_is ? tiles.right[y][x] : tiles.right[x][y]) = next_right[i];
    }
    __syncthreads();
    if (k + tile < first_term + depth) load(k + tile);
    const int count = static_cast<int>(terms - k < tile ? terms - k : tile);
#pragma unroll 8
    for (int j = 0; j < count; ++j) {
      const T factor = tiles.right[j][x];
#pragma unroll
      for (unsigned i = 0; i < rows_of_thread; ++i) {
        if (threadIdx.y + i * warps < rows) sums[i] += tiles.left[threadIdx.y + i * warps][j] * factor;
      }
    }
  }
}

/// The matrix of sequence b in a tensor [rows, B, columns], or the left part of it.
template <class T>
__device__ __forceinline__ Window<T> sequence(const T* x, Index b, Index batch, Index size, Index rows,
                                              Index columns) {
  return {x + b * size, batch * size, rows, columns};
}

__device__ __forceinline__ Index live_keys(const std::int32_t* lengths, Index b, Index key_count) {
  if (lengths == nullptr || lengths[b] > key_count) return key_count;
  return lengths[b] < 0 ? 0 : Index{lengths[b]};
}

/// Row `row` of the products, of which `live` count, becomes its softmax, and 0 beyond.
template <class T>
struct Softmax {
  T scale;

  __device__ void operator()(T* row, Index /*place*/, Index live, Index key_count) const {
    const unsigned lane = threadIdx.x;
    // As on the CPU, where the scores have the scale from the beginning.
    T largest = -std::numeric_limits<T>::infinity();
    for (Index s = lane; s < live; s += warp_size) {
      const T score = scale * row[s];
      largest = largest < score ? score : largest;
    }
    largest = warp_max(largest);
    T total = 0;
    for (Index s = lane; s < live; s += warp_size) {
      row[s] = exp(scale * row[s] - largest);
      total += row[s];
    }
    total = warp_sum(total);
    for (Index s = lane; s < key_count; s += warp_size) row[s] = s < live ? row[s] / total : T{0};
  }
};

/// The gradients of the weights become those of the scores.
template <class T>
struct SoftmaxBackward {
  T scale;
  const T* weights;

  __device__ void operator()(T* row, Index place, Index live, Index /*key_count*/) const {
    const T* a = weights + place;
    T mean = 0;
    for (Index s = threadIdx.x; s < live; s += warp_size) mean += a[s] * row[s];
    mean = warp_sum(mean);
    for (Index s = threadIdx.x; s < live; s += warp_size) row[s] = scale * a[s] * (row[s] - mean);
  }
};

template <class T>
struct Sizes {
  const T* keys;
  const std::int32_t* lengths;
  Index steps;      // T
  Index key_count;  // S
  Index batch;      // B
  Index size;       // N
};

template <class T, class ChangeRow>
__global__ void __launch_bounds__(tile* warps* groups)
    weights_kernel(Sizes<T> a, const T* left, T* products, Index step_tiles, ChangeRow change_row) {
  Tiles<T>* tiles = reinterpret_cast<Tiles<T>*>(dynamic_shared_memory());
  const Index b = blockIdx.x / step_tiles;
  const Index first_step = (blockIdx.x % step_tiles) * tile;
  const Index live = live_keys(a.lengths, b, a.key_count);
  const Window<T> keys = sequence(a.keys, b, a.batch, a.size, live, a.size);
  const auto product_at = [&](Index t) { return (t * a.batch + b) * a.key_count; };
  // 1.
  const Window<T> vectors = sequence(left, b, a.batch, a.size, a.steps, a.size);
  const Index part = (a.size + groups * tile - 1) / (groups * tile) * tile;
  for (Index first_key = 0; first_key < live; first_key += tile) {
    T sums[rows_of_thread] = {};
    add_product<Operation::as_it_is, Operation::transposed>(
        vectors, keys, first_step, first_key, threadIdx.z * part, part, tiles[threadIdx.z], sums);
    // The groups' sums take the place of their left tiles, and the first group adds them.
    __syncthreads();
    for (unsigned i = 0; i < rows_of_thread; ++i)
      tiles[threadIdx.z].left[threadIdx.y + i * warps][threadIdx.x] = sums[i];
    __syncthreads();
    const Index s = first_key + threadIdx.x;
    for (unsigned i = 0; i < rows_of_thread && threadIdx.z == 0; ++i) {
      const unsigned row = threadIdx.y + i * warps;
      const Index t = first_step + row;
      if (t >= a.steps || s >= live) continue;
      T sum = 0;
      for (unsigned z = 0; z < groups; ++z) sum += tiles[z].left[row][threadIdx.x];
      products[product_at(t) + s] = sum;
    }
  }
  __syncthreads();
  // 2.
  for (unsigned row = threadIdx.z * warps + threadIdx.y; row < tile; row += groups * warps) {
    const Index t = first_step + row;
    if (t < a.steps) change_row(products + product_at(t), product_at(t), live, a.key_count);
  }
}

template <class T>
__global__ void contexts_kernel(Sizes<T> a, const T* products, T* out, Index step_tiles) {
  __shared__ Tiles<T> tiles;
  const Index b = blockIdx.x / step_tiles;
  const Index first_step = (blockIdx.x % step_tiles) * tile;
  const Index first_entry = static_cast<Index>(blockIdx.y) * tile;
  const Index live = live_keys(a.lengths, b, a.key_count);
  T sums[rows_of_thread] = {};
  add_product<Operation::as_it_is, Operation::as_it_is>(
      sequence(products, b, a.batch, a.key_count, a.steps, live),
      sequence(a.keys, b, a.batch, a.size, live, a.size), first_step, first_entry, 0, live, tiles, sums);
  const Index n = first_entry + threadIdx.x;
  for (unsigned i = 0; i < rows_of_thread; ++i) {
    const Index t = first_step + threadIdx.y + i * warps;
    if (t < a.steps && n < a.size) out[(t * a.batch + b) * a.size + n] = sums[i];
  }
}

template <class T>
__global__ void d_keys_kernel(Sizes<T> a, const T* queries, const T* weights, const T* d_contexts,
                              const T* d_scores, T* d_keys, Index key_tiles) {
  __shared__ Tiles<T> tiles;
  const Index b = blockIdx.x / key_tiles;
  const Index first_key = (blockIdx.x % key_tiles) * tile;
  const Index first_entry = static_cast<Index>(blockIdx.y) * tile;
  const Index live = live_keys(a.lengths, b, a.key_count);
  T sums[rows_of_thread] = {};
  if (first_key < live) {
    const auto add = [&](const T* by_key, const T* vectors) {
      add_product<Operation::transposed, Operation::as_it_is>(
          sequence(by_key, b, a.batch, a.key_count, a.steps, live),
          sequence(vectors, b, a.batch, a.size, a.steps, a.size), first_key, first_entry, 0, a.steps, tiles,
          sums);
    };
    add(weights, d_contexts);
    add(d_scores, queries);
  }
  const Index n = first_entry + threadIdx.x;
  for (unsigned i = 0; i < rows_of_thread; ++i) {
    const Index s = first_key + threadIdx.y + i * warps;
    if (s < a.key_count && n < a.size) d_keys[(s * a.batch + b) * a.size + n] = sums[i];
  }
}

template <class T>
Sizes<T> sizes_of(const AttentionInput<T>& input) {
  return {.keys = input.keys.data(),
          .lengths = input.lengths.empty() ? nullptr : input.lengths.data(),
          .steps = input.queries.shape()[0],
          .key_count = input.keys.shape()[0],
          .batch = input.keys.shape()[1],
          .size = input.keys.shape()[2]};
}

template <class T, class ChangeRow>
void launch_rows(const Context& gpu, const Sizes<T>& sizes, const T* left, T* products, T* out,
                 ChangeRow change_row) {
  const Index step_tiles = blocks_for(sizes.steps, tile);
  const auto row_blocks = static_cast<unsigned>(step_tiles * sizes.batch);
  launch(gpu, weights_kernel<T, ChangeRow>,
         {.grid = row_blocks, .block = dim3(tile, warps, groups), .shared = groups * sizeof(Tiles<T>)}, sizes,
         left, products, step_tiles, change_row);
  launch(gpu, contexts_kernel<T>,
         {.grid = dim3(row_blocks, blocks_for(sizes.size, tile)), .block = dim3(tile, warps)}, sizes,
         products, out, step_tiles);
}

}  // namespace

template <class T>
void attention(const AttentionInput<T>& input, TensorView<T> weights, TensorView<T> contexts) {
  if (contexts.empty()) return;
  launch_rows(context(contexts.device()), sizes_of(input), input.queries.data(), weights.data(),
              contexts.data(), Softmax<T>{input.scale});
}

template <class T>
void attention_backward(const AttentionInput<T>& input, TensorView<const T> weights,
                        const AttentionGradients<T>& gradients, TensorView<T> d_scores) {
  const Context& gpu = context(weights.device());
  const Sizes<T> sizes = sizes_of(input);
  if (!gradients.d_queries.empty()) {
    launch_rows(gpu, sizes, gradients.d_contexts.data(), d_scores.data(), gradients.d_queries.data(),
                SoftmaxBackward<T>{input.scale, weights.data()});
  }
  if (gradients.d_keys.empty()) return;
  const Index key_tiles = blocks_for(sizes.key_count, tile);
  launch(gpu, d_keys_kernel<T>,
         {.grid = dim3(static_cast<unsigned>(key_tiles * sizes.batch), blocks_for(sizes.size, tile)),
          .block = dim3(tile, warps)},
         sizes, input.queries.data(), weights.data(), gradients.d_contexts.data(), d_scores.data(),
         gradients.d_keys.data(), key_tiles);
}

#define ORTHORNN_INSTANTIATE(T)                                                       \
  template void attention<T>(const AttentionInput<T>&, TensorView<T>, TensorView<T>); \
  template void attention_backward<T>(const AttentionInput<T>&, TensorView<const T>,  \
                                      const AttentionGradients<T>&, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
