#include "orthornn/nn/attention.hpp"

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/live_steps.hpp"
#include "core/parallel.hpp"
#include "cuda/nn/attention.hpp"
#include "layers/checks.hpp"
#include "linalg/gemm.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

template <class T>
void check(const AttentionInput<T>& input, const Shape& weights) {
  const Shape queries = input.queries.shape(), keys = input.keys.shape();
  if (queries.rank() != 3 || keys.rank() != 3 || !(Shape{queries[1], queries[2]} == Shape{keys[1], keys[2]}))
    throw ShapeError("queries have shape " + to_string(queries) + ", keys " + to_string(keys) +
                     "; expected [T, B, N] and [S, B, N]");
  check_shape("attention weights", weights, {queries[0], queries[1], keys[0]});
  if (!input.lengths.empty()) check_shape("lengths of keys", input.lengths.shape(), {keys[1]});
}

/// The vectors [.., B, N] of sequence b as a matrix with a column for each step.
template <class U>
MatrixView<U> sequence(TensorView<U> x, Index b) {
  const Index batch = x.shape()[1], size = x.shape()[2];
  return {x.data() + b * size, size, x.shape()[0], batch * size, x.device()};
}

template <class T>
Index live_keys(const AttentionInput<T>& input, Index b) {
  return live_steps(input.lengths, input.keys.shape()[0], b);
}

/// Those of the first `count` rows of every column.
template <class U>
MatrixView<U> rows(MatrixView<U> m, Index count) {
  return m.block(0, 0, count, m.cols);
}

template <class T>
void softmax(T* x, Index count) {
  if (count == 0) return;
  const T largest = *std::max_element(x, x + count);
  T total = 0;
  for (Index s = 0; s < count; ++s) {
    x[s] = std::exp(x[s] - largest);
    total += x[s];
  }
  for (Index s = 0; s < count; ++s) x[s] /= total;
}

}  // namespace

template <class T>
void attention(const AttentionInput<T>& input, TensorView<T> weights, TensorView<T> contexts) {
  check(input, weights.shape());
  check_shape("contexts", contexts.shape(), input.queries.shape());
  check_lengths(input.lengths, input.keys.shape()[0]);
  if constexpr (has_cuda_bodies) {
    if (contexts.device().is_cuda()) return cuda::attention<T>(input, weights, contexts);
  }
  parallel_for(contexts.shape()[1], 1, [&](Index first, Index last) {
    for (Index b = first; b < last; ++b) {
      const Index live = live_keys(input, b);
      const MatrixView<const T> keys = sequence(input.keys, b).columns(0, live);
      const MatrixView<T> all = sequence(weights, b), a = rows(all, live);
      gemm<T>(input.scale, transposed(keys), sequence(input.queries, b), 0, a);
      for (Index t = 0; t < all.cols; ++t) {
        softmax(all.column(t), live);
        std::fill(all.column(t) + live, all.column(t) + all.rows, T{0});
      }
      gemm<T>(1, keys, a, 0, sequence(contexts, b));
    }
  });
}

template <class T>
void attention_backward(const AttentionInput<T>& input, TensorView<const T> weights,
                        const AttentionGradients<T>& gradients, Saved& scratch) {
  check(input, weights.shape());
  check_shape("d_contexts", gradients.d_contexts.shape(), input.queries.shape());
  check_shape("d_queries", gradients.d_queries.shape(), input.queries.shape());
  check_shape("d_keys", gradients.d_keys.shape(), input.keys.shape());
  const Saved::Scope scope(scratch);
  const TensorView<T> d_scores = scratch.push<T>(weights.shape());
  if constexpr (has_cuda_bodies) {
    if (weights.device().is_cuda()) return cuda::attention_backward<T>(input, weights, gradients, d_scores);
  }
  parallel_for(weights.shape()[1], 1, [&](Index first, Index last) {
    for (Index b = first; b < last; ++b) {
      const Index live = live_keys(input, b);
      const MatrixView<const T> keys = sequence(input.keys, b).columns(0, live);
      const MatrixView<const T> queries = sequence(input.queries, b),
                                d_contexts = sequence(gradients.d_contexts, b);
      const MatrixView<const T> a = rows(sequence(weights, b), live);
      const MatrixView<T> d = rows(sequence(d_scores, b), live);
      // 1. Gradients of the weights, and then of q . k: d <- c a (d - sum of a d).
      gemm<T>(1, transposed(keys), d_contexts, 0, d);
      for (Index t = 0; t < d.cols; ++t) {
        T mean = 0;
        for (Index s = 0; s < live; ++s) mean += a(s, t) * d(s, t);
        for (Index s = 0; s < live; ++s) d(s, t) = input.scale * a(s, t) * (d(s, t) - mean);
      }
      // 2. Of the queries, and of the keys as values and as keys.
      gemm<T>(1, keys, d, 0, sequence(gradients.d_queries, b));
      const MatrixView<T> d_keys = sequence(gradients.d_keys, b);
      gemm<T>(1, d_contexts, transposed(a), 0, d_keys.columns(0, live));
      gemm<T>(1, queries, transposed(d), 1, d_keys.columns(0, live));
      for (Index s = live; s < d_keys.cols; ++s)
        std::fill(d_keys.column(s), d_keys.column(s) + d_keys.rows, T{0});
    }
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                       \
  template void attention<T>(const AttentionInput<T>&, TensorView<T>, TensorView<T>); \
  template void attention_backward<T>(const AttentionInput<T>&, TensorView<const T>,  \
                                      const AttentionGradients<T>&, Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
