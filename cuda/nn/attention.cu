#include <limits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/core/pack.cuh"
#include "cuda/nn/attention.hpp"

// All products of attention are of small matrices, one for each sequence:
//
//   weights_kernel, four warps for each query: its row of products = left K^T. Forward: left = Q, the scores.
//     Backward: left = dC, the gradients of the weights. Then the row becomes its softmax (forward) or the
//     gradients of the scores (backward).
//   contexts_kernel, a thread for each entry of 16 rows: out [T, N] = products K. Forward: the contexts.
//     Backward: dQ.
//   d_keys_kernel, the same for 16 keys: dK = A^T dC + dS^T Q.
//
// Sentences are short, so the kernels wait for memory more than they compute. Therefore each thread has many
// loads on their way, and no tiles of vectors are kept. Shared memory has the factors of 32 terms for 16
// rows: 2 KiB in float.
//
// The products are in global memory, where rows of any length fit. Every sum has an order that depends on
// sizes and lengths only.

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned warps = threads / warp_size;
// Warps of a query, and keys by which a warp multiplies it at once. Fewer warps of more keys wait longer: for
// 10 queries and keys of 128 sequences the kernel takes 41 us with a warp of 16 keys, and 18 us with these.
constexpr unsigned warps_of_query = 4;
constexpr unsigned keys_at_once = 4;
constexpr unsigned queries_of_block = warps / warps_of_query;
// Rows of sums of a thread, and terms whose factors are in shared memory at once.
constexpr unsigned rows_at_once = 16;
constexpr unsigned terms_at_once = 32;

__device__ __forceinline__ Index live_keys(const std::int32_t* lengths, Index b, Index key_count) {
  if (lengths == nullptr || lengths[b] > key_count) return key_count;
  return lengths[b] < 0 ? 0 : Index{lengths[b]};
}

/// Row `row` of the products, of which `live` count, becomes its softmax, and 0 beyond.
template <class T>
struct Softmax {
  T scale;

  __device__ void operator()(T* row, Index /*place*/, Index live, Index key_count) const {
    const unsigned lane = threadIdx.x % warp_size;
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
    const unsigned lane = threadIdx.x % warp_size;
    const T* a = weights + place;
    T mean = 0;
    for (Index s = lane; s < live; s += warp_size) mean += a[s] * row[s];
    mean = warp_sum(mean);
    for (Index s = lane; s < live; s += warp_size) row[s] = scale * a[s] * (row[s] - mean);
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
__global__ void __launch_bounds__(threads)
    weights_kernel(Sizes<T> a, const T* left, T* products, ChangeRow change_row) {
  // Neighbouring warps have queries of one sequence, and so the same keys.
  const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const Index query = static_cast<Index>(blockIdx.x) * queries_of_block + warp / warps_of_query;
  const Index b = query / a.steps, t = query % a.steps;
  const Index live = b < a.batch ? live_keys(a.lengths, b, a.key_count) : 0;
  const Index place = (t * a.batch + b) * a.key_count;
  const T* const vector = left + (t * a.batch + b) * a.size;
  const Index stride = a.batch * a.size;
  for (Index first = warp % warps_of_query * keys_at_once; first < live;
       first += warps_of_query * keys_at_once) {
    const T* const keys = a.keys + first * stride + b * a.size;
    const Index count = live - first;
    T sums[keys_at_once] = {};
#pragma unroll 8
    for (Index n = lane; n < a.size; n += warp_size) {
      const T x = vector[n];
#pragma unroll
      for (unsigned s = 0; s < keys_at_once; ++s) {
        if (s < count) sums[s] += x * keys[s * stride + n];
      }
    }
    T mine = 0;
#pragma unroll
    for (unsigned s = 0; s < keys_at_once; ++s) {
      const T sum = warp_sum(sums[s]);
      if (lane == s) mine = sum;
    }
    if (lane < keys_at_once && lane < count) products[place + first + lane] = mine;
  }
  __syncthreads();
  if (b < a.batch && warp % warps_of_query == 0) change_row(products + place, place, live, a.key_count);
}

/// Factors of a sum of vectors: entry (row, term) is data[row * row_stride + term * term_stride].
template <class T>
struct Factors {
  const T* data;
  Index row_stride;
  Index term_stride;
  Index rows;
  Index terms;
};

/// Adds to sums[r] the factors of row first_row + r times one entry of the vectors, which are `stride` apart.
/// Sums beyond the rows are unspecified. All threads of a block call it, those without an entry with null.
template <class T>
__device__ void add_combinations(const Factors<T>& factors, Index first_row, const T* entry, Index stride,
                                 T (&sums)[rows_at_once]) {
  __shared__ Pack<T, rows_at_once> shared[terms_at_once];
  for (Index first = 0; first < factors.terms; first += terms_at_once) {
    __syncthreads();  // the factors before have been read
    for (unsigned i = threadIdx.x; i < terms_at_once * rows_at_once; i += threads) {
      const Index row = first_row + i % rows_at_once, term = first + i / rows_at_once;
      if (row < factors.rows && term < factors.terms)
        shared[i / rows_at_once].of[i % rows_at_once] =
            factors.data[row * factors.row_stride + term * factors.term_stride];
    }
    __syncthreads();
    if (entry == nullptr) continue;
    const Index left = factors.terms - first;
    const int count = static_cast<int>(left < terms_at_once ? left : terms_at_once);
#pragma unroll 8
    for (int j = 0; j < count; ++j) {
      const T x = entry[(first + j) * stride];
#pragma unroll
      for (unsigned r = 0; r < rows_at_once; ++r) sums[r] += shared[j].of[r] * x;
    }
  }
}

/// Entry n of what sequence b has in step 0 of a tensor [.., B, N], or null beyond the entries.
template <class T, class U>
__device__ __forceinline__ U* entry_of(const Sizes<T>& a, U* x, Index b, Index n) {
  return n < a.size ? x + b * a.size + n : nullptr;
}

template <class T>
__global__ void __launch_bounds__(threads)
    contexts_kernel(Sizes<T> a, const T* products, T* out, Index step_tiles) {
  const Index b = blockIdx.x / step_tiles;
  const Index first_step = (blockIdx.x % step_tiles) * rows_at_once;
  const Index n = static_cast<Index>(blockIdx.y) * threads + threadIdx.x;
  const Index stride = a.batch * a.size;
  T sums[rows_at_once] = {};
  add_combinations<T>({.data = products + b * a.key_count,
                       .row_stride = a.batch * a.key_count,
                       .term_stride = 1,
                       .rows = a.steps,
                       .terms = live_keys(a.lengths, b, a.key_count)},
                      first_step, entry_of(a, a.keys, b, n), stride, sums);
  T* const entry = entry_of(a, out, b, n);
#pragma unroll
  for (unsigned i = 0; i < rows_at_once; ++i) {
    if (entry != nullptr && first_step + i < a.steps) entry[(first_step + i) * stride] = sums[i];
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    d_keys_kernel(Sizes<T> a, const T* queries, const T* weights, const T* d_contexts, const T* d_scores,
                  T* d_keys, Index key_tiles) {
  const Index b = blockIdx.x / key_tiles;
  const Index first_key = (blockIdx.x % key_tiles) * rows_at_once;
  const Index n = static_cast<Index>(blockIdx.y) * threads + threadIdx.x;
  const Index live = live_keys(a.lengths, b, a.key_count);
  const Index stride = a.batch * a.size;
  T sums[rows_at_once] = {};
  const auto add = [&](const T* by_key, const T* vectors) {
    add_combinations<T>({.data = by_key + b * a.key_count,
                         .row_stride = 1,
                         .term_stride = a.batch * a.key_count,
                         .rows = live,
                         .terms = a.steps},
                        first_key, entry_of(a, vectors, b, n), stride, sums);
  };
  if (first_key < live) {
    add(weights, d_contexts);
    add(d_scores, queries);
  }
  T* const entry = entry_of(a, d_keys, b, n);
#pragma unroll
  for (unsigned i = 0; i < rows_at_once; ++i) {
    const Index s = first_key + i;
    if (entry != nullptr && s < a.key_count) entry[s * stride] = s < live ? sums[i] : T{0};
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
  launch(gpu, weights_kernel<T, ChangeRow>,
         {.grid = blocks_for(sizes.steps * sizes.batch, queries_of_block), .block = threads}, sizes, left,
         products, change_row);
  const Index step_tiles = blocks_for(sizes.steps, rows_at_once);
  launch(gpu, contexts_kernel<T>,
         {.grid = dim3(static_cast<unsigned>(step_tiles * sizes.batch), blocks_for(sizes.size, threads)),
          .block = threads},
         sizes, products, out, step_tiles);
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
  const Index key_tiles = blocks_for(sizes.key_count, rows_at_once);
  launch(gpu, d_keys_kernel<T>,
         {.grid = dim3(static_cast<unsigned>(key_tiles * sizes.batch), blocks_for(sizes.size, threads)),
          .block = threads},
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
