#include "delta/chunked_delta_product.hpp"

#include "delta/delta_chunk.hpp"
#include "delta/value_parts.hpp"
#include "linalg/block_kernel.hpp"
#include "linalg/gemm.hpp"
#include "linalg/triangular_inverse.hpp"

namespace orthornn {
namespace {

/// U^-1 and P.
template <class T>
void couple(const ChunkedWork<T>& work, Index index, Index head) {
  const DeltaChunk<T> chunk = work.chunk(index, head);
  const Index steps = chunk.micro_steps(), tokens = chunk.tokens(), size = work.sizes.key;
  Slab<T> slab(size * (steps + tokens) + steps * tokens);
  const MatrixView<T> decays = decays_between(chunk, slab);
  const MatrixView<T> keys = slab.matrix(size, steps), queries = slab.matrix(size, tokens);
  chunk.gather_keys(keys);
  chunk.gather_queries(queries);

  const MatrixView<T> u = work.inverse(index, head);
  gemm<T>(1, transposed(keys), keys, 0, u);
  for (Index r = 0; r < steps; ++r) {
    eigen(u).col(r).head(r).array() *= chunk.beta(r) * eigen(decays).col(chunk.token_of(r)).head(r).array();
    u(r, r) = 1;
    std::fill(u.column(r) + r + 1, u.column(r) + steps, T{0});
  }
  invert_upper_triangular(u);

  const MatrixView<T> scores = work.scores(index, head);
  gemm<T>(work.scale, transposed(keys), queries, 0, scores);
  for (Index t = 0; t < tokens; ++t) {
    const Index end = chunk.end_of(t);
    eigen(scores).col(t).head(end).array() *= eigen(decays).col(t).head(end).array();
    std::fill(scores.column(t) + end, scores.column(t) + steps, T{0});
  }
}

/// From chunk to chunk: updates and states of some values of a head.
template <class T>
void advance(const ChunkedWork<T>& work, TensorView<T> final_states, Index b, Index head, Index first,
             Index count) {
  const DeltaSizes& sizes = work.sizes;
  const Index begin = work.chunks.begin(b), end = work.chunks.end(b);
  const auto state_before = [&](Index index) {
    return index < end            ? work.values_of_state(work.kept.states, index, head, first, count)
           : final_states.empty() ? MatrixView<T>()
                                  : work.values_of_state(final_states, b, head, first, count);
  };
  if (const MatrixView<T> start = state_before(begin); start.data != nullptr) {
    if (work.input.initial_states.empty()) {
      eigen(start).setZero();
    } else {
      eigen(start) = eigen(work.values_of_state(work.input.initial_states, b, head, first, count));
    }
  }
  for (Index index = begin; index < end; ++index) {
    const DeltaChunk<T> chunk = work.chunk(index, head);
    const Index steps = chunk.micro_steps();
    Slab<T> slab(2 * sizes.key * steps + count * steps + ChunkDecays<T>::scratch(chunk.tokens()));
    const ChunkDecays<T> decays(chunk, slab);
    const MatrixView<T> keys = slab.matrix(sizes.key, steps), decayed = slab.matrix(sizes.key, steps),
                        errors = slab.matrix(count, steps);
    chunk.gather_keys(keys);
    const MatrixView<T> state = state_before(index);
    const MatrixView<T> updates =
        work.of_micro_steps(work.kept.updates, index, head).block(first, 0, count, steps);
    // 1. Errors: beta (v - expected).
    for (Index r = 0; r < steps; ++r)
      eigen(decayed).col(r) = decays.start(chunk.token_of(r)) * eigen(keys).col(r);
    gemm<T>(1, state, decayed, 0, errors);
    for (Index r = 0; r < steps; ++r) {
      const T* const v = chunk.at_micro_step(work.input.values, r) + first;
      const T beta = chunk.beta(r);
      for (Index i = 0; i < count; ++i) errors(i, r) = beta * (v[i] - errors(i, r));
    }
    // 2. Updates.
    gemm<T>(1, errors, work.inverse(index, head), 0, updates);
    // 3. The next state.
    const MatrixView<T> next = state_before(index + 1);
    if (next.data == nullptr) continue;
    for (Index r = 0; r < steps; ++r)
      eigen(decayed).col(r) = decays.end(chunk.token_of(r)) * eigen(keys).col(r);
    eigen(next) = eigen(state);
    gemm<T>(1, updates, transposed(decayed), decays.whole(), next);
  }
}

/// The outputs of one head in one chunk.
template <class T>
void read_out(const ChunkedWork<T>& work, TensorView<T> outputs, Index index, Index head) {
  const DeltaChunk<T> chunk = work.chunk(index, head);
  const Index tokens = chunk.tokens();
  Slab<T> slab((work.sizes.key + work.sizes.value) * tokens + ChunkDecays<T>::scratch(tokens));
  const ChunkDecays<T> decays(chunk, slab);
  const MatrixView<T> queries = slab.matrix(work.sizes.key, tokens),
                      result = slab.matrix(work.sizes.value, tokens);
  chunk.gather_queries(queries);
  for (Index t = 0; t < tokens; ++t) eigen(queries).col(t) *= work.scale * decays.start(t);
  gemm<T>(1, work.of_micro_steps(work.kept.updates, index, head), work.scores(index, head), 0, result);
  gemm<T>(1, work.of_state(work.kept.states, index, head), queries, 1, result);
  for (Index t = 0; t < tokens; ++t) std::copy_n(result.column(t), result.rows, chunk.at_token(outputs, t));
}

}  // namespace

template <class T>
void chunked_delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, TensorView<T> outputs,
                           TensorView<T> final_states, Saved& saved) {
  ChunkedWork<T> work(input, layout, options, saved);
  const DeltaSizes& sizes = work.sizes;
  work.kept = {.inverse = saved.push<T>(work.inverse_shape()),
               .updates = saved.push<T>(work.updates_shape()),
               .states = saved.push<T>(work.states_shape()),
               .scores = saved.push<T>(work.scores_shape())};
  work.chunks.for_each(sizes.heads, [&](Index index, Index head) { couple(work, index, head); });
  for_each_state(layout.size(), sizes.heads, sizes.value, block_kernel::row_group<T>,
                 [&](Index b, Index head, Index first, Index count) {
                   advance(work, final_states, b, head, first, count);
                 });
  work.chunks.for_each(sizes.heads, [&](Index index, Index head) { read_out(work, outputs, index, head); });
}

template void chunked_delta_product<float>(const DeltaProductInput<float>&, const TokenLayout&,
                                           const DeltaProductOptions&, TensorView<float>, TensorView<float>,
                                           Saved&);
template void chunked_delta_product<double>(const DeltaProductInput<double>&, const TokenLayout&,
                                            const DeltaProductOptions&, TensorView<double>,
                                            TensorView<double>, Saved&);

}  // namespace orthornn
