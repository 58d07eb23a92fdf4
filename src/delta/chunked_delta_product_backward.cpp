#include "delta/chunked_delta_product.hpp"
#include "delta/delta_chunk.hpp"
#include "delta/value_parts.hpp"
#include "linalg/block_kernel.hpp"
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

template <class T>
void advance_backward(const ChunkedWork<T>& work, const DeltaProductGradients<T>& gradients,
                      const ChunkGradients<T>& between, Index b, Index head, Index first, Index count) {
  const DeltaSizes& sizes = work.sizes;
  const Index begin = work.chunks.begin(b), end = work.chunks.end(b);
  const auto d_state_after = [&](Index index) {
    return index >= begin ? work.values_of_state(between.d_states, index, head, first, count)
           : gradients.d_initial_states.empty()
               ? MatrixView<T>()
               : work.values_of_state(gradients.d_initial_states, b, head, first, count);
  };
  if (const MatrixView<T> last = d_state_after(end - 1); last.data != nullptr) {
    if (gradients.d_final_states.empty()) {
      eigen(last).setZero();
    } else {
      eigen(last) = eigen(work.values_of_state(gradients.d_final_states, b, head, first, count));
    }
  }
  for (Index index = end; index-- > begin;) {
    const DeltaChunk<T> chunk = work.chunk(index, head);
    const Index steps = chunk.micro_steps(), tokens = chunk.tokens();
    Slab<T> slab(sizes.key * (2 * steps + tokens) + count * (steps + tokens) +
                 ChunkDecays<T>::scratch(tokens));
    const ChunkDecays<T> decays(chunk, slab);
    const MatrixView<T> keys = slab.matrix(sizes.key, steps), decayed = slab.matrix(sizes.key, steps),
                        queries = slab.matrix(sizes.key, tokens), d_updates = slab.matrix(count, steps),
                        d_outputs = slab.matrix(count, tokens);
    chunk.gather_keys(keys);
    chunk.gather_queries(queries);
    for (Index t = 0; t < tokens; ++t)
      std::copy_n(chunk.at_token(gradients.d_outputs, t) + first, count, d_outputs.column(t));
    const MatrixView<T> d_after = d_state_after(index);
    const MatrixView<T> d_errors =
        work.of_micro_steps(between.d_errors, index, head).block(first, 0, count, steps);
    // 1. Of the updates and of the errors.
    for (Index r = 0; r < steps; ++r)
      eigen(decayed).col(r) = decays.end(chunk.token_of(r)) * eigen(keys).col(r);
    gemm<T>(1, d_outputs, transposed(work.scores(index, head)), 0, d_updates);
    gemm<T>(1, d_after, decayed, 1, d_updates);
    gemm<T>(1, d_updates, transposed(work.inverse(index, head)), 0, d_errors);
    // 2. Of the state before the chunk.
    const MatrixView<T> d_before = d_state_after(index - 1);
    if (d_before.data == nullptr) continue;
    eigen(d_before) = eigen(d_after);
    for (Index t = 0; t < tokens; ++t) eigen(queries).col(t) *= work.scale * decays.start(t);
    gemm<T>(1, d_outputs, transposed(queries), decays.whole(), d_before);
    const MatrixView<T> d_values = d_updates;
    for (Index r = 0; r < steps; ++r) {
      eigen(decayed).col(r) = decays.start(chunk.token_of(r)) * eigen(keys).col(r);
      eigen(d_values).col(r) = chunk.beta(r) * eigen(d_errors).col(r);
    }
    gemm<T>(-1, d_values, transposed(decayed), 1, d_before);
  }
}

/// The gradients of one head's inputs in one chunk.
template <class T>
void gather_gradients(const ChunkedWork<T>& work, const DeltaProductGradients<T>& gradients,
                      const ChunkGradients<T>& between, Index index, Index head) {
  const DeltaSizes& sizes = work.sizes;
  const DeltaChunk<T> chunk = work.chunk(index, head);
  const Index steps = chunk.micro_steps(), tokens = chunk.tokens();
  Slab<T> slab(steps * (3 * sizes.key + 2 * sizes.value + 2 * steps + tokens + 2) +
               tokens * (3 * sizes.key + sizes.value + 1 + steps) + ChunkDecays<T>::scratch(tokens));
  const ChunkDecays<T> decays(chunk, slab);
  const MatrixView<T> between_tokens = decays_between(chunk, slab);
  const MatrixView<T> keys = slab.matrix(sizes.key, steps), d_keys = slab.matrix(sizes.key, steps),
                      key_part = slab.matrix(sizes.key, steps);
  const MatrixView<T> expected = slab.matrix(sizes.value, steps), d_values = slab.matrix(sizes.value, steps);
  const MatrixView<T> gram = slab.matrix(steps, steps), d_coupling = slab.matrix(steps, steps),
                      d_scores = slab.matrix(steps, tokens);
  const MatrixView<T> queries = slab.matrix(sizes.key, tokens), d_queries = slab.matrix(sizes.key, tokens),
                      query_part = slab.matrix(sizes.key, tokens);
  const MatrixView<T> d_outputs = slab.matrix(sizes.value, tokens);
  const MatrixView<T> norm_factors = slab.matrix(steps, 1), d_betas = slab.matrix(steps, 1),
                      d_logs = slab.matrix(tokens, 1);

  chunk.gather_keys(keys, norm_factors.data);
  chunk.gather_queries(queries);
  for (Index t = 0; t < tokens; ++t)
    std::copy_n(chunk.at_token(gradients.d_outputs, t), sizes.value, d_outputs.column(t));
  const MatrixView<T> updates = work.of_micro_steps(work.kept.updates, index, head),
                      state = work.of_state(work.kept.states, index, head), scores = work.scores(index, head),
                      d_errors = work.of_micro_steps(between.d_errors, index, head),
                      d_after = work.of_state(between.d_states, index, head);
  // d_logs: of the logarithms of the decays up to each token. The decay from s to t counts for t, and against
  // s.
  eigen(d_logs).setZero();
  const auto count_decay = [&](Index s, Index t, T d) {
    d_logs(t, 0) += d;
    d_logs(s, 0) -= d;
  };

  // 1. Scores: queries, and the keys as read by them.
  gemm<T>(1, transposed(updates), d_outputs, 0, d_scores);
  for (Index t = 0; t < tokens; ++t) {
    const Index end = chunk.end_of(t);
    if (chunk.decays()) {
      for (Index s = 0; s < chunk.begin_of(t); ++s)
        count_decay(chunk.token_of(s), t, scores(s, t) * d_scores(s, t));
    }
    eigen(d_scores).col(t).head(end).array() *= work.scale * eigen(between_tokens).col(t).head(end).array();
    std::fill(d_scores.column(t) + end, d_scores.column(t) + steps, T{0});
  }
  gemm<T>(1, keys, d_scores, 0, d_queries);
  gemm<T>(work.scale, transposed(state), d_outputs, 0, query_part);
  for (Index t = 0; t < tokens; ++t) {
    eigen(query_part).col(t) *= decays.start(t);
    if (chunk.decays()) d_logs(t, 0) += dot(queries, query_part, t);
    eigen(d_queries).col(t) += eigen(query_part).col(t);
    std::copy_n(d_queries.column(t), sizes.key, chunk.at_token(gradients.d_queries, t));
  }
  gemm<T>(1, queries, transposed(d_scores), 0, d_keys);

  // 2. The state after the chunk.
  gemm<T>(1, transposed(d_after), updates, 0, key_part);
  for (Index r = 0; r < steps; ++r) {
    eigen(key_part).col(r) *= decays.end(chunk.token_of(r));
    if (chunk.decays()) count_decay(chunk.token_of(r), tokens - 1, dot(keys, key_part, r));
    eigen(d_keys).col(r) += eigen(key_part).col(r);
  }
  if (chunk.decays())
    d_logs(tokens - 1, 0) += decays.whole() * eigen(d_after).cwiseProduct(eigen(state)).sum();

  // 3. Coupling of micro-steps.
  gemm<T>(-1, transposed(updates), d_errors, 0, d_coupling);
  gemm<T>(1, transposed(keys), keys, 0, gram);
  for (Index r = 0; r < steps; ++r) {
    const Index to = chunk.token_of(r);
    const T beta = chunk.beta(r);
    auto d = eigen(d_coupling).col(r).head(r).array();
    d *= eigen(between_tokens).col(to).head(r).array();
    d_betas(r, 0) = (d * eigen(gram).col(r).head(r).array()).sum();
    d *= beta;
    if (chunk.decays()) {
      for (Index s = 0; s < chunk.begin_of(to); ++s) count_decay(chunk.token_of(s), to, d(s) * gram(s, r));
    }
    std::fill(d_coupling.column(r) + r, d_coupling.column(r) + steps, T{0});
  }
  gemm<T>(1, keys, d_coupling, 1, d_keys);
  gemm<T>(1, keys, transposed(d_coupling), 1, d_keys);

  // 4. Errors: values, step sizes, and the keys as read by the state before the chunk.
  for (Index r = 0; r < steps; ++r) {
    eigen(d_values).col(r) = chunk.beta(r) * eigen(d_errors).col(r);
    std::copy_n(d_values.column(r), sizes.value, chunk.at_micro_step(gradients.d_values, r));
  }
  gemm<T>(1, transposed(state), d_values, 0, key_part);
  for (Index r = 0; r < steps; ++r) {
    const Index t = chunk.token_of(r);
    eigen(key_part).col(r) *= decays.start(t);
    if (chunk.decays()) d_logs(t, 0) -= dot(keys, key_part, r);
    eigen(d_keys).col(r) -= eigen(key_part).col(r);
  }
  for (Index r = 0; r < steps; ++r)
    eigen(key_part).col(r) = decays.start(chunk.token_of(r)) * eigen(keys).col(r);
  gemm<T>(1, state, key_part, 0, expected);
  for (Index r = 0; r < steps; ++r) {
    const T* v = chunk.at_micro_step(work.input.values, r);
    T sum = 0;
    for (Index i = 0; i < sizes.value; ++i) sum += d_errors(i, r) * (v[i] - expected(i, r));
    gradients.d_betas(chunk.row(chunk.token_of(r)), r % sizes.factors, head) = d_betas(r, 0) + sum;
  }

  // 5. Keys through their norm, and decays.
  for (Index r = 0; r < steps; ++r) {
    auto d = eigen(d_keys).col(r);
    if (work.options.unit_keys) d = norm_factors(r, 0) * (d - dot(keys, d_keys, r) * eigen(keys).col(r));
    std::copy_n(d_keys.column(r), sizes.key, chunk.at_micro_step(gradients.d_keys, r));
  }
  if (chunk.decays()) {
    T sum = 0;
    for (Index t = tokens; t-- > 0;) {
      sum += d_logs(t, 0);
      gradients.d_log_decays(chunk.row(t), head) = sum;
    }
  }
}

}  // namespace

template <class T>
void chunked_delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                                    const DeltaProductOptions& options,
                                    const DeltaProductGradients<T>& gradients, Saved& saved) {
  const KeptChunks<T> kept{saved.top<T>(3), saved.top<T>(2), saved.top<T>(1), saved.top<T>(0)};
  {
    const Saved::Scope scope(saved);
    ChunkedWork<T> work(input, layout, options, saved);
    const DeltaSizes& sizes = work.sizes;
    check_shape("inverses that the forward kept", kept.inverse.shape(), work.inverse_shape());
    check_shape("updates that the forward kept", kept.updates.shape(), work.updates_shape());
    check_shape("states that the forward kept", kept.states.shape(), work.states_shape());
    check_shape("scores that the forward kept", kept.scores.shape(), work.scores_shape());
    work.kept = kept;
    const ChunkGradients<T> between{.d_errors = saved.push<T>(work.updates_shape()),
                                    .d_states = saved.push<T>(work.states_shape())};
    for_each_state(layout.size(), sizes.heads, sizes.value, block_kernel::row_group<T>,
                   [&](Index b, Index head, Index first, Index count) {
                     advance_backward(work, gradients, between, b, head, first, count);
                   });
    work.chunks.for_each(sizes.heads, [&](Index index, Index head) {
      gather_gradients(work, gradients, between, index, head);
    });
  }
  saved.pop(KeptChunks<T>::tensors);
}

template void chunked_delta_product_backward<float>(const DeltaProductInput<float>&, const TokenLayout&,
                                                    const DeltaProductOptions&,
                                                    const DeltaProductGradients<float>&, Saved&);
template void chunked_delta_product_backward<double>(const DeltaProductInput<double>&, const TokenLayout&,
                                                     const DeltaProductOptions&,
                                                     const DeltaProductGradients<double>&, Saved&);

}  // namespace orthornn
