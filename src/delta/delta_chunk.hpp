#pragma once
// What the forward and the backward of the chunked delta product share. The formulas are in
// docs/math.md, sections 5.3 and 5.4.

#include <algorithm>
#include <cmath>

#include "cuda/delta/delta_work.hpp"
#include "delta/chunk_matrices.hpp"
#include "delta/unit_key.hpp"

namespace orthornn {

/// The places of one head in one chunk: `tokens` tokens, C = tokens * n factors.
template <class T>
class DeltaChunk {
 public:
  DeltaChunk(const DeltaWork<T>& work, const SequenceParts::Part& part, Index head)
      : work_(work),
        head_(head),
        first_row_(work.layout[part.sequence].row(part.first_token)),
        stride_(work.layout[part.sequence].stride),
        tokens_(part.tokens) {}

  Index tokens() const { return tokens_; }
  /// C.
  Index factors() const { return tokens_ * work_.sizes.factors; }
  Index row(Index token) const { return first_row_ + token * stride_; }
  /// The token of factor r.
  Index token_of(Index r) const { return r / work_.sizes.factors; }
  /// The first factor of token t, and one past its last.
  Index begin_of(Index t) const { return t * work_.sizes.factors; }
  Index end_of(Index t) const { return (t + 1) * work_.sizes.factors; }

  /// Where the vector of factor r is in a tensor [R, n, H, D], and that of token t in [R, H, D].
  template <class U>
  U* at_factor(TensorView<U> x, Index r) const {
    const auto& [n, heads, key, value] = work_.sizes;
    return x.data() + ((row(r / n) * n + r % n) * heads + head_) * x.shape()[3];
  }
  template <class U>
  U* at_token(TensorView<U> x, Index t) const {
    return x.data() + (row(t) * work_.sizes.heads + head_) * x.shape()[2];
  }
  /// The number of factor r in a tensor [R, n, H], and that of token t in [R, H].
  template <class U>
  U& number_of_factor(TensorView<U> x, Index r) const {
    return x(row(token_of(r)), r % work_.sizes.factors, head_);
  }
  template <class U>
  U& number_of_token(TensorView<U> x, Index t) const {
    return x(row(t), head_);
  }
  T beta(Index r) const { return number_of_factor(work_.input.betas, r); }

  /// Copies the keys into the columns of K x C, of norm 1 where that is asked for. `norm_factors`, if any,
  /// become what they were multiplied by.
  void gather_keys(MatrixView<T> keys, T* norm_factors = nullptr) const {
    for (Index r = 0; r < keys.cols; ++r) {
      std::copy_n(at_factor(work_.input.keys, r), keys.rows, keys.column(r));
      const T factor = work_.options.unit_keys ? make_unit(eigen(keys).col(r)) : T{1};
      if (norm_factors != nullptr) norm_factors[r] = factor;
    }
  }
  /// Copies the vectors of tokens in a tensor [R, H, D], from number `first` of each on, into columns.
  void gather_tokens(TensorView<const T> from, Index first, MatrixView<T> to) const {
    for (Index t = 0; t < to.cols; ++t) std::copy_n(at_token(from, t) + first, to.rows, to.column(t));
  }
  void gather_queries(MatrixView<T> queries) const { gather_tokens(work_.input.queries, 0, queries); }

  bool decays() const { return !work_.input.log_decays.empty(); }
  /// The logarithm of token t's decay, where there are any.
  T log_decay(Index t) const { return number_of_token(work_.input.log_decays, t); }

 private:
  const DeltaWork<T>& work_;
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
  /// to <- keys, column r times the decay from the beginning to the token of factor r, or from there to the
  /// end.
  void decay_from_start(const DeltaChunk<T>& chunk, MatrixView<T> keys, MatrixView<T> to) const {
    for (Index r = 0; r < keys.cols; ++r) eigen(to).col(r) = start(chunk.token_of(r)) * eigen(keys).col(r);
  }
  void decay_to_end(const DeltaChunk<T>& chunk, MatrixView<T> keys, MatrixView<T> to) const {
    for (Index r = 0; r < keys.cols; ++r) eigen(to).col(r) = end(chunk.token_of(r)) * eigen(keys).col(r);
  }

 private:
  MatrixView<T> start_, end_;
};

/// Decays from factor s to token t of a chunk, for s before the end of t: column t of C x tokens.
template <class T>
MatrixView<T> decays_between(const DeltaChunk<T>& chunk, Slab<T>& slab) {
  const MatrixView<T> result = slab.matrix(chunk.factors(), chunk.tokens());
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
  explicit ChunkedWork(const DeltaWork<T>& delta)
      : work(delta),
        scale(static_cast<T>(delta.options.scale)),
        chunks(delta.layout, wanted_factors(delta.options) / delta.sizes.factors, delta.saved) {}

  const DeltaWork<T>& work;
  const T scale;
  const SequenceParts chunks;
  KeptChunks<T> kept{};

  /// Pushes what is kept.
  void push_kept() {
    Saved& saved = work.saved;
    kept = {.inverse = saved.push<T>(inverse_shape()),
            .updates = saved.push<T>(updates_shape()),
            .states = saved.push<T>(states_shape()),
            .scores = saved.push<T>(scores_shape())};
  }
  /// Shapes of what is kept.
  Shape inverse_shape() const { return {chunks.size(), work.sizes.heads, factors(), factors()}; }
  Shape updates_shape() const { return {chunks.size(), work.sizes.heads, factors(), work.sizes.value}; }
  Shape states_shape() const { return {chunks.size(), work.sizes.heads, work.sizes.key, work.sizes.value}; }
  Shape scores_shape() const { return {chunks.size(), work.sizes.heads, chunks.part_tokens(), factors()}; }

  DeltaChunk<T> chunk(Index index, Index head) const { return {work, chunks[index], head}; }
  /// The matrices of a head in a chunk.
  MatrixView<T> inverse(Index index, Index head) const {
    const Index count = chunks[index].tokens * work.sizes.factors;
    return matrix_of(kept.inverse, place(index, head), count, count);
  }
  MatrixView<T> scores(Index index, Index head) const {
    const Index count = chunks[index].tokens;
    return matrix_of(kept.scores, place(index, head), count * work.sizes.factors, count);
  }
  /// A tensor [chunks, H, C, V] or [chunks, H, K, V].
  MatrixView<T> of_factors(TensorView<T> tensor, Index index, Index head) const {
    return matrix_of(tensor, place(index, head), work.sizes.value, chunks[index].tokens * work.sizes.factors);
  }
  MatrixView<T> of_state(TensorView<T> tensor, Index index, Index head) const {
    return matrix_of(tensor, place(index, head), work.sizes.value, work.sizes.key);
  }

 private:
  static Index wanted_factors(const DeltaProductOptions& options) {
    return options.chunk == 0 ? options.cpu_chunk : options.chunk;
  }
  /// Of a whole chunk.
  Index factors() const { return chunks.part_tokens() * work.sizes.factors; }
  Index place(Index index, Index head) const { return index * work.sizes.heads + head; }
};

}  // namespace orthornn
