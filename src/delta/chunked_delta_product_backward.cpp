#include "delta/chunked_delta_product.hpp"
#include "delta/delta_chunk.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {
namespace {

template <class T>
T dot(MatrixView<T> a, MatrixView<T> b, Index column) {
  return eigen(a).col(column).dot(eigen(b).col(column));
}

/// From chunk to chunk, backward: gradients of the errors [chunks, H, C, V], and of the state after each
/// chunk [chunks, H, K, V].
template <class T>
struct ChunkGradients {
  TensorView<T> d_errors, d_states;
};

/// From a chunk to the one before it, for some values of a head: `d_after` is the gradient of the state after
/// the chunk, and `d_before` becomes that of the state before it.
template <class T>
void advance_backward(const ChunkedWork<T>& chunked, const DeltaProductGradients<T>& gradients,
                      TensorView<T> all_d_errors, Index index, const ValueRange& values,
                      MatrixView<T> d_after, MatrixView<T> d_before) {
  const Index size = chunked.work.sizes.key, head = values.head, count = values.count;
  const DeltaChunk<T> chunk = chunked.chunk(index, head);
  const Index factors = chunk.factors(), tokens = chunk.tokens();
  Slab<T> slab(size * (2 * factors + tokens) + count * (factors + tokens) + ChunkDecays<T>::scratch(tokens));
  const ChunkDecays<T> decays(chunk, slab);
  const MatrixView<T> keys = slab.matrix(size, factors), decayed = slab.matrix(size, factors),
                      queries = slab.matrix(size, tokens), d_updates = slab.matrix(count, factors),
                      d_outputs = slab.matrix(count, tokens);
  chunk.gather_keys(keys);
  chunk.gather_queries(queries);
  chunk.gather_tokens(gradients.d_outputs, values.first, d_outputs);
  const MatrixView<T> d_errors =
      chunked.of_factors(all_d_errors, index, head).block(values.first, 0, count, factors);
  // 1. Of the updates and of the errors.
  decays.decay_to_end(chunk, keys, decayed);
  gemm<T>(1, d_outputs, transposed(chunked.scores(index, head)), 0, d_updates);
  gemm<T>(1, d_after, decayed, 1, d_updates);
  gemm<T>(1, d_updates, transposed(chunked.inverse(index, head)), 0, d_errors);
  // 2. Of the state before the chunk.
  if (d_before.data == nullptr) return;
  eigen(d_before) = eigen(d_after);
  for (Index t = 0; t < tokens; ++t) eigen(queries).col(t) *= chunked.scale * decays.start(t);
  gemm<T>(1, d_outputs, transposed(queries), decays.whole(), d_before);
  const MatrixView<T> d_values = d_updates;
  decays.decay_from_start(chunk, keys, decayed);
  for (Index r = 0; r < factors; ++r) eigen(d_values).col(r) = chunk.beta(r) * eigen(d_errors).col(r);
  gemm<T>(-1, d_values, transposed(decayed), 1, d_before);
}

/// The gradients of one head's inputs in one chunk. Its matrices are in the thread's slab.
template <class T>
struct ChunkBackward {
  const ChunkedWork<T>& chunked;
  const DeltaProductGradients<T>& gradients;
  const ChunkGradients<T>& between;
  Index index, head;

  const DeltaSizes& sizes = chunked.work.sizes;
  const DeltaChunk<T> chunk = chunked.chunk(index, head);
  Index factors = chunk.factors(), tokens = chunk.tokens();
  Slab<T> slab{factors * (3 * sizes.key + 2 * sizes.value + 2 * factors + tokens + 2) +
               tokens * (3 * sizes.key + sizes.value + 1 + factors) + ChunkDecays<T>::scratch(tokens)};
  const ChunkDecays<T> decays{chunk, slab};
  using Matrix = MatrixView<T>;
  Matrix between_tokens = decays_between(chunk, slab);
  Matrix keys = slab.matrix(sizes.key, factors), d_keys = slab.matrix(sizes.key, factors),
         key_part = slab.matrix(sizes.key, factors);
  Matrix expected = slab.matrix(sizes.value, factors), d_values = slab.matrix(sizes.value, factors);
  Matrix gram = slab.matrix(factors, factors), d_coupling = slab.matrix(factors, factors),
         d_scores = slab.matrix(factors, tokens);
  Matrix queries = slab.matrix(sizes.key, tokens), d_queries = slab.matrix(sizes.key, tokens),
         query_part = slab.matrix(sizes.key, tokens), d_outputs = slab.matrix(sizes.value, tokens);
  Matrix norm_factors = slab.matrix(factors, 1), d_betas = slab.matrix(factors, 1);
  /// Of the logarithms of the decays up to each token. The decay from s to t counts for t, and against s.
  Matrix d_logs = slab.matrix(tokens, 1);
  Matrix updates = chunked.of_factors(chunked.kept.updates, index, head),
         state = chunked.of_state(chunked.kept.states, index, head), scores = chunked.scores(index, head),
         d_errors = chunked.of_factors(between.d_errors, index, head),
         d_after = chunked.of_state(between.d_states, index, head);

  void run() {
    chunk.gather_keys(keys, norm_factors.data);
    chunk.gather_queries(queries);
    chunk.gather_tokens(gradients.d_outputs, 0, d_outputs);
    eigen(d_logs).setZero();
    through_scores();
    through_state_after();
    through_coupling();
    through_errors();
    finish_keys_and_decays();
  }

  /// Of the decay from token s to token t.
  void count_decay(Index s, Index t, T d) {
    d_logs(t, 0) += d;
    d_logs(s, 0) -= d;
  }

  /// 1. Queries, and the keys as read by them.
  void through_scores() {
    const T scale = chunked.scale;
    gemm<T>(1, transposed(updates), d_outputs, 0, d_scores);
    for (Index t = 0; t < tokens; ++t) {
      const Index end = chunk.end_of(t);
      if (chunk.decays()) {
        for (Index s = 0; s < chunk.begin_of(t); ++s)
          count_decay(chunk.token_of(s), t, scores(s, t) * d_scores(s, t));
      }
      eigen(d_scores).col(t).head(end).array() *= scale * eigen(between_tokens).col(t).head(end).array();
      std::fill(d_scores.column(t) + end, d_scores.column(t) + factors, T{0});
    }
    gemm<T>(1, keys, d_scores, 0, d_queries);
    gemm<T>(scale, transposed(state), d_outputs, 0, query_part);
    for (Index t = 0; t < tokens; ++t) {
      eigen(query_part).col(t) *= decays.start(t);
      if (chunk.decays()) d_logs(t, 0) += dot(queries, query_part, t);
      eigen(d_queries).col(t) += eigen(query_part).col(t);
      std::copy_n(d_queries.column(t), d_queries.rows, chunk.at_token(gradients.d_queries, t));
    }
    gemm<T>(1, queries, transposed(d_scores), 0, d_keys);
  }

  /// 2.
  void through_state_after() {
    gemm<T>(1, transposed(d_after), updates, 0, key_part);
    for (Index r = 0; r < factors; ++r) {
      eigen(key_part).col(r) *= decays.end(chunk.token_of(r));
      if (chunk.decays()) count_decay(chunk.token_of(r), tokens - 1, dot(keys, key_part, r));
      eigen(d_keys).col(r) += eigen(key_part).col(r);
    }
    if (chunk.decays())
      d_logs(tokens - 1, 0) += decays.whole() * eigen(d_after).cwiseProduct(eigen(state)).sum();
  }

  /// 3. Of factors.
  void through_coupling() {
    gemm<T>(-1, transposed(updates), d_errors, 0, d_coupling);
    gemm<T>(1, transposed(keys), keys, 0, gram);
    for (Index r = 0; r < factors; ++r) {
      const Index to = chunk.token_of(r);
      const T beta = chunk.beta(r);
      auto d = eigen(d_coupling).col(r).head(r).array();
      d *= eigen(between_tokens).col(to).head(r).array();
      d_betas(r, 0) = (d * eigen(gram).col(r).head(r).array()).sum();
      d *= beta;
      if (chunk.decays()) {
        for (Index s = 0; s < chunk.begin_of(to); ++s) count_decay(chunk.token_of(s), to, d(s) * gram(s, r));
      }
    }
    clear_rows_from(d_coupling, 0);
    gemm<T>(1, keys, d_coupling, 1, d_keys);
    gemm<T>(1, keys, transposed(d_coupling), 1, d_keys);
  }

  /// 4. Values, step sizes, and the keys as read by the state before the chunk.
  void through_errors() {
    for (Index r = 0; r < factors; ++r) {
      eigen(d_values).col(r) = chunk.beta(r) * eigen(d_errors).col(r);
      std::copy_n(d_values.column(r), d_values.rows, chunk.at_factor(gradients.d_values, r));
    }
    gemm<T>(1, transposed(state), d_values, 0, key_part);
    for (Index r = 0; r < factors; ++r) {
      const Index t = chunk.token_of(r);
      eigen(key_part).col(r) *= decays.start(t);
      if (chunk.decays()) d_logs(t, 0) -= dot(keys, key_part, r);
      eigen(d_keys).col(r) -= eigen(key_part).col(r);
    }
    decays.decay_from_start(chunk, keys, key_part);
    gemm<T>(1, state, key_part, 0, expected);
    for (Index r = 0; r < factors; ++r) {
      const T* v = chunk.at_factor(chunked.work.input.values, r);
      T sum = 0;
      for (Index i = 0; i < expected.rows; ++i) sum += d_errors(i, r) * (v[i] - expected(i, r));
      chunk.number_of_factor(gradients.d_betas, r) = d_betas(r, 0) + sum;
    }
  }

  /// 5. Keys through their norm, and decays.
  void finish_keys_and_decays() {
    for (Index r = 0; r < factors; ++r) {
      auto d = eigen(d_keys).col(r);
      if (chunked.work.options.unit_keys)
        d = norm_factors(r, 0) * (d - dot(keys, d_keys, r) * eigen(keys).col(r));
      std::copy_n(d_keys.column(r), d_keys.rows, chunk.at_factor(gradients.d_keys, r));
    }
    if (!chunk.decays()) return;
    T sum = 0;
    for (Index t = tokens; t-- > 0;) {
      sum += d_logs(t, 0);
      chunk.number_of_token(gradients.d_log_decays, t) = sum;
    }
  }
};

}  // namespace

template <class T>
void chunked_delta_product_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients) {
  Saved& saved = work.saved;
  const KeptChunks<T> kept{saved.top<T>(3), saved.top<T>(2), saved.top<T>(1), saved.top<T>(0)};
  {
    const Saved::Scope scope(saved);
    ChunkedWork<T> chunked(work);
    check_shape("inverses that the forward kept", kept.inverse.shape(), chunked.inverse_shape());
    check_shape("updates that the forward kept", kept.updates.shape(), chunked.updates_shape());
    check_shape("states that the forward kept", kept.states.shape(), chunked.states_shape());
    check_shape("scores that the forward kept", kept.scores.shape(), chunked.scores_shape());
    chunked.kept = kept;
    const ChunkGradients<T> between{.d_errors = saved.push<T>(chunked.updates_shape()),
                                    .d_states = saved.push<T>(chunked.states_shape())};
    sweep_chunks<T>(
        chunked.chunks, work.layout.size(),
        {.of_chunks = between.d_states,
         .start = gradients.d_final_states,
         .finish = gradients.d_initial_states},
        SweepDirection::backward,
        [&](Index index, const ValueRange& values, MatrixView<T> d_after, MatrixView<T> d_before) {
          advance_backward(chunked, gradients, between.d_errors, index, values, d_after, d_before);
        });
    for_each_head(chunked.chunks.size(), work.sizes.heads, [&](Index index, Index head) {
      ChunkBackward<T>{chunked, gradients, between, index, head}.run();
    });
  }
  saved.pop(KeptChunks<T>::tensors);
}

template void chunked_delta_product_backward<float>(const DeltaWork<float>&,
                                                    const DeltaProductGradients<float>&);
template void chunked_delta_product_backward<double>(const DeltaWork<double>&,
                                                     const DeltaProductGradients<double>&);

}  // namespace orthornn
