#include "delta/chunked_delta_product.hpp"

#include "delta/delta_chunk.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {
namespace {

/// U^-1 and P.
template <class T>
void couple(const ChunkedWork<T>& chunked, Index index, Index head) {
  const DeltaChunk<T> chunk = chunked.chunk(index, head);
  const Index factors = chunk.factors(), tokens = chunk.tokens(), size = chunked.work.sizes.key;
  Slab<T> slab(size * (factors + tokens) + factors * tokens);
  const MatrixView<T> decays = decays_between(chunk, slab);
  const MatrixView<T> keys = slab.matrix(size, factors), queries = slab.matrix(size, tokens);
  chunk.gather_keys(keys);
  chunk.gather_queries(queries);

  const MatrixView<T> u = chunked.inverse(index, head);
  gemm<T>(1, transposed(keys), keys, 0, u);
  for (Index r = 0; r < factors; ++r)
    eigen(u).col(r).head(r).array() *= chunk.beta(r) * eigen(decays).col(chunk.token_of(r)).head(r).array();
  invert_unit_upper(u);

  const MatrixView<T> scores = chunked.scores(index, head);
  gemm<T>(chunked.scale, transposed(keys), queries, 0, scores);
  for (Index t = 0; t < tokens; ++t) {
    const Index end = chunk.end_of(t);
    eigen(scores).col(t).head(end).array() *= eigen(decays).col(t).head(end).array();
    std::fill(scores.column(t) + end, scores.column(t) + factors, T{0});
  }
}

/// From a chunk to the next: updates and states of some values of a head.
template <class T>
void advance(const ChunkedWork<T>& chunked, Index index, const ValueRange& values, MatrixView<T> state,
             MatrixView<T> next) {
  const Index size = chunked.work.sizes.key, head = values.head, count = values.count;
  const DeltaChunk<T> chunk = chunked.chunk(index, head);
  const Index factors = chunk.factors();
  Slab<T> slab(2 * size * factors + count * factors + ChunkDecays<T>::scratch(chunk.tokens()));
  const ChunkDecays<T> decays(chunk, slab);
  const MatrixView<T> keys = slab.matrix(size, factors), decayed = slab.matrix(size, factors),
                      errors = slab.matrix(count, factors);
  chunk.gather_keys(keys);
  const MatrixView<T> updates =
      chunked.of_factors(chunked.kept.updates, index, head).block(values.first, 0, count, factors);
  // 1. Errors: beta (v - expected).
  decays.decay_from_start(chunk, keys, decayed);
  gemm<T>(1, state, decayed, 0, errors);
  for (Index r = 0; r < factors; ++r) {
    const T* const v = chunk.at_factor(chunked.work.input.values, r) + values.first;
    const T beta = chunk.beta(r);
    for (Index i = 0; i < count; ++i) errors(i, r) = beta * (v[i] - errors(i, r));
  }
  // 2. Updates.
  gemm<T>(1, errors, chunked.inverse(index, head), 0, updates);
  // 3. The next state.
  if (next.data == nullptr) return;
  decays.decay_to_end(chunk, keys, decayed);
  eigen(next) = eigen(state);
  gemm<T>(1, updates, transposed(decayed), decays.whole(), next);
}

/// The outputs of one head in one chunk.
template <class T>
void read_out(const ChunkedWork<T>& chunked, TensorView<T> outputs, Index index, Index head) {
  const DeltaChunk<T> chunk = chunked.chunk(index, head);
  const DeltaSizes& sizes = chunked.work.sizes;
  const Index tokens = chunk.tokens();
  Slab<T> slab((sizes.key + sizes.value) * tokens + ChunkDecays<T>::scratch(tokens));
  const ChunkDecays<T> decays(chunk, slab);
  const MatrixView<T> queries = slab.matrix(sizes.key, tokens), result = slab.matrix(sizes.value, tokens);
  chunk.gather_queries(queries);
  for (Index t = 0; t < tokens; ++t) eigen(queries).col(t) *= chunked.scale * decays.start(t);
  gemm<T>(1, chunked.of_factors(chunked.kept.updates, index, head), chunked.scores(index, head), 0, result);
  gemm<T>(1, chunked.of_state(chunked.kept.states, index, head), queries, 1, result);
  for (Index t = 0; t < tokens; ++t) std::copy_n(result.column(t), result.rows, chunk.at_token(outputs, t));
}

}  // namespace

template <class T>
void chunked_delta_product(const DeltaWork<T>& work, const DeltaResults<T>& results) {
  ChunkedWork<T> chunked(work);
  chunked.push_kept();
  for_each_head(chunked.chunks.size(), work.sizes.heads,
                [&](Index index, Index head) { couple(chunked, index, head); });
  sweep_chunks<T>(
      chunked.chunks, work.layout.size(),
      {.of_chunks = chunked.kept.states, .start = work.input.initial_states, .finish = results.final_states},
      SweepDirection::forward,
      [&](Index index, const ValueRange& values, MatrixView<T> state, MatrixView<T> next) {
        advance(chunked, index, values, state, next);
      });
  for_each_head(chunked.chunks.size(), work.sizes.heads,
                [&](Index index, Index head) { read_out(chunked, results.outputs, index, head); });
}

template <class T>
SavedMemory memory_of_chunks(const DeltaWork<T>& work) {
  const Saved::Scope scope(work.saved);
  const ChunkedWork<T> chunked(work);
  const auto bytes = [](const Shape& shape) { return Saved::bytes_of(shape, sizeof(T)); };
  const std::size_t table = SequenceParts::bytes(work.layout), updates = bytes(chunked.updates_shape()),
                    states = bytes(chunked.states_shape());
  const std::size_t kept =
      table + bytes(chunked.inverse_shape()) + updates + states + bytes(chunked.scores_shape());
  return {.kept = kept, .keeping = 0, .forward = kept, .backward = table + updates + states};
}

template <class T>
void push_kept_chunks(const DeltaWork<T>& work) {
  ChunkedWork<T>(work).push_kept();
}

#define ORTHORNN_INSTANTIATE(T)                                  \
  template SavedMemory memory_of_chunks<T>(const DeltaWork<T>&); \
  template void push_kept_chunks<T>(const DeltaWork<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

template void chunked_delta_product<float>(const DeltaWork<float>&, const DeltaResults<float>&);
template void chunked_delta_product<double>(const DeltaWork<double>&, const DeltaResults<double>&);

}  // namespace orthornn
