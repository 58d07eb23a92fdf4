#pragma once
// What the forward and the backward of the chunked delta product share. The formulas are in
// docs/math.md, sections 5.3 and 5.4.

#include <algorithm>
#include <cmath>

#include "delta/delta_sizes.hpp"
#include "delta/sequence_parts.hpp"
#include "delta/slab.hpp"
#include "delta/unit_key.hpp"
#include "linalg/eigen_map.hpp"

namespace orthornn {

/// The places of one head in one chunk: `tokens` tokens, C = tokens * n micro-steps.
template <class T>
class DeltaChunk {
 public:
  DeltaChunk(const DeltaProductInput<T>& input, const TokenLayout& layout, const DeltaProductOptions& options,
             const SequenceParts::Part& part, Index head)
      : input_(input),
        sizes_(input),
        unit_keys_(options.unit_keys),
        head_(head),
        first_row_(layout[part.sequence].row(part.first_token)),
        stride_(layout[part.sequence].stride),
        tokens_(part.tokens) {}

  Index tokens() const { return tokens_; }
  Index micro_steps() const { return tokens_ * sizes_.factors; }
  Index row(Index token) const { return first_row_ + token * stride_; }
  /// The token of micro-step r.
  Index token_of(Index r) const { return r / sizes_.factors; }
  /// The first micro-step of token t, and one past its last.
  Index begin_of(Index t) const { return t * sizes_.factors; }
  Index end_of(Index t) const { return (t + 1) * sizes_.factors; }

  /// Where the vector of micro-step r is in a tensor [R, n, H, D], and that of token t in [R, H, D].
  template <class U>
  U* at_micro_step(TensorView<U> x, Index r) const {
    const Index n = sizes_.factors, size = x.shape()[3];
    return x.data() + ((row(r / n) * n + r % n) * sizes_.heads + head_) * size;
  }
  template <class U>
  U* at_token(TensorView<U> x, Index t) const {
    return x.data() + (row(t) * sizes_.heads + head_) * x.shape()[2];
  }
  T beta(Index r) const { return input_.betas(row(token_of(r)), r % sizes_.factors, head_); }

  /// Copies the keys into the columns of K x C, of norm 1 where that is asked for. `norm_factors`, if any,
  /// become what they were multiplied by.
  void gather_keys(MatrixView<T> keys, T* norm_factors = nullptr) const {
    for (Index r = 0; r < keys.cols; ++r) {
      std::copy_n(at_micro_step(input_.keys, r), keys.rows, keys.column(r));
      const T factor = unit_keys_ ? make_unit(eigen(keys).col(r)) : T{1};
      if (norm_factors != nullptr) norm_factors[r] = factor;
    }
  }
  void gather_queries(MatrixView<T> queries) const {
    for (Index t = 0; t < queries.cols; ++t)
      std::copy_n(at_token(input_.queries, t), queries.rows, queries.column(t));
  }

  bool decays() const { return !input_.log_decays.empty(); }
  /// The logarithm of token t's decay, where there are any.
  T log_decay(Index t) const { return input_.log_decays(row(t), head_); }

 private:
  const DeltaProductInput<T>& input_;
  DeltaSizes sizes_;
  bool unit_keys_;
  Index head_, first_row_, stride_, tokens_;
};

/// Decays of a chunk from its beginning to each token and from there to its end. Each is the exponential of a
/// sum of its own: docs/math.md, section 5.3, says why.
template <class T>
class ChunkDecays {
 public:
  static Index scratch(Index tokens) { return 2 * tokens; }
  ChunkDecays(const DeltaChunk<T>& chunk, Slab<T>& slab)
      : start_(slab.matrix(chunk.tokens(), 1)), end_(slab.matrix(chunk.tokens(), 1)) {
    if (!chunk.decays()) {
      eigen(start_).setOnes();
      eigen(end_).setOnes();
      return;
    }
    T sum = 0;
    for (Index t = 0; t < chunk.tokens(); ++t) {
      sum += chunk.log_decay(t);
      start_(t, 0) = std::exp(sum);
    }
    sum = 0;
    for (Index s = chunk.tokens(); s-- > 0; sum += chunk.log_decay(s)) end_(s, 0) = std::exp(sum);
  }
  T start(Index t) const { return start_(t, 0); }
  T end(Index t) const { return end_(t, 0); }
  T whole() const { return start_(start_.rows - 1, 0); }

 private:
  MatrixView<T> start_, end_;
};

/// Decays from micro-step s to token t of a chunk, for s before the end of t: column t of C x tokens.
template <class T>
MatrixView<T> decays_between(const DeltaChunk<T>& chunk, Slab<T>& slab) {
  const MatrixView<T> result = slab.matrix(chunk.micro_steps(), chunk.tokens());
  if (!chunk.decays()) {
    eigen(result).setOnes();
    return result;
  }
  for (Index from = 0; from < chunk.tokens(); ++from) {
    T sum = 0;
    for (Index t = from; t < chunk.tokens(); ++t) {
      if (t > from) sum += chunk.log_decay(t);
      std::fill(&result(chunk.begin_of(from), t), result.column(t) + chunk.end_of(from), std::exp(sum));
    }
  }
  return result;
}

/// What the forward leaves for the backward.
template <class T>
struct KeptChunks {
  /// U^-1 [chunks, H, C, C], updates [chunks, H, C, V], S before each chunk [chunks, H, K, V], and P
  /// [chunks, H, tokens, C].
  TensorView<T> inverse, updates, states, scores;
  /// These, and that of the parts below them.
  static constexpr Index tensors = 5;
};

/// What all phases of a forward and a backward share.
template <class T>
class ChunkedWork {
 public:
  ChunkedWork(const DeltaProductInput<T>& in, const TokenLayout& where, const DeltaProductOptions& how,
              Saved& saved)
      : input(in),
        layout(where),
        options(how),
        sizes(in),
        scale(static_cast<T>(how.scale)),
        chunks(where, (how.chunk == 0 ? how.cpu_chunk : how.chunk) / sizes.factors, saved) {}

  const DeltaProductInput<T>& input;
  const TokenLayout& layout;
  const DeltaProductOptions& options;
  const DeltaSizes sizes;
  const T scale;
  const SequenceParts chunks;
  KeptChunks<T> kept{};

  /// Shapes of what is kept.
  Shape inverse_shape() const { return {chunks.size(), sizes.heads, micro_steps(), micro_steps()}; }
  Shape updates_shape() const { return {chunks.size(), sizes.heads, micro_steps(), sizes.value}; }
  Shape states_shape() const { return {chunks.size(), sizes.heads, sizes.key, sizes.value}; }
  Shape scores_shape() const { return {chunks.size(), sizes.heads, chunks.part_tokens(), micro_steps()}; }

  DeltaChunk<T> chunk(Index index, Index head) const { return {input, layout, options, chunks[index], head}; }
  /// The matrices of a head in a chunk.
  MatrixView<T> inverse(Index index, Index head) const {
    const Index count = chunks[index].tokens * sizes.factors;
    return matrix_of(kept.inverse, place(index, head), count, count);
  }
  MatrixView<T> scores(Index index, Index head) const {
    const Index count = chunks[index].tokens;
    return matrix_of(kept.scores, place(index, head), count * sizes.factors, count);
  }
  /// A tensor [chunks, H, C, V] or [chunks, H, K, V].
  MatrixView<T> of_micro_steps(TensorView<T> tensor, Index index, Index head) const {
    return matrix_of(tensor, place(index, head), sizes.value, chunks[index].tokens * sizes.factors);
  }
  MatrixView<T> of_state(TensorView<T> tensor, Index index, Index head) const {
    return matrix_of(tensor, place(index, head), sizes.value, sizes.key);
  }

  /// Some values of the state of sequence or chunk i, as rows.
  template <class U>
  MatrixView<U> values_of_state(TensorView<U> tensor, Index i, Index head, Index first, Index count) const {
    return matrix_of(tensor, place(i, head), sizes.value, sizes.key).block(first, 0, count, sizes.key);
  }

 private:
  /// Of a whole chunk.
  Index micro_steps() const { return chunks.part_tokens() * sizes.factors; }
  Index place(Index index, Index head) const { return index * sizes.heads + head; }
};

}  // namespace orthornn
