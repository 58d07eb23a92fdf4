#include "orthornn/delta/position_scores.hpp"

#include <algorithm>

#include "core/back_end.hpp"
#include "cuda/delta/position_scores.hpp"
#include "delta/chunk_matrices.hpp"
#include "delta/delta_checks.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {
namespace {

/// `scores` are the scores or their gradient, which messages call `name`.
template <class T>
void check(const PositionScoresInput<T>& input, const TokenLayout& layout,
           const PositionScoresOptions& options, const char* name, TensorView<const T> scores,
           const Saved& saved) {
  const Shape keys = input.keys.shape(), shape = scores.shape();
  if (keys.rank() != 3) throw ShapeError("keys have shape " + to_string(keys) + "; expected [R, H, D]");
  check_shape("keys", keys, {layout.rows(), keys[1], keys[2]});
  check_chunk(options.chunk, "tokens");
  check_scale<T>(options.scale);
  const Index length = shape.rank() == 4 && shape[2] >= layout.longest() ? shape[2] : layout.longest();
  check_tensors("position_scores", saved,
                {{"queries", input.queries, keys},
                 {"keys", input.keys, keys},
                 {"vectors", input.vectors, keys},
                 {"betas", input.betas, {keys[0], keys[1]}},
                 {name, scores, {layout.size(), keys[1], length, length}}});
}

/// Tokens of a chunk: no more than the longest sequence has.
Index chunk_tokens(const TokenLayout& layout, const PositionScoresOptions& options) {
  return std::clamp(options.chunk, Index{1}, std::max(Index{1}, layout.longest()));
}

/// One head of one sequence. Keys of the chunks before are carried to the beginning of a chunk. For a chunk
/// of C tokens with M tokens before its end, all as columns:
///
///     carried P [D, M]   the keys so far, those of the chunk last and as they are
///     inverse [C, C]     of the upper triangular beta_r w_s . w_r, 1 on the diagonal
///     reach E [M, C]     beta_r w_r . P_j; within the chunk 0 unless r > j
///     updates Y [M, C]   E inverse
///     meeting G [C, C]   w_r . q_t for r <= t, else 0
///     scores [M, C]      c (P^T q - Y G), within the chunk P^T q only for j <= t
///
/// and after the chunk the keys are P - W Y^T.
template <class T>
struct HeadScores {
  const PositionScoresInput<T>& input;
  const TokenLayout& layout;
  const PositionScoresOptions& options;
  Index b, head;

  const TokenLayout::Sequence& sequence = layout[b];
  Index heads = input.keys.shape()[1], size = input.keys.shape()[2];
  /// Number of the head of this sequence among all, and tokens of a chunk.
  Index place = b * heads + head, chunk_size = chunk_tokens(layout, options);
  T scale = static_cast<T>(options.scale);

  /// Keys [.., D] that a backward needs of a sequence of so many tokens: those at each chunk's end.
  static Index kept_keys(Index tokens, Index chunk) {
    Index count = 0;
    for (Index first = 0; first < tokens; first += chunk) count += std::min(tokens, first + chunk);
    return count;
  }

  /// `carried` has room for `kept_keys` with `keep`, else for all tokens' keys.
  void forward(TensorView<T> scores, T* carried, bool keep) const {
    for (Index first = 0; first < sequence.count; first += chunk_size) {
      const Index count = std::min(chunk_size, sequence.count - first), all = first + count;
      Slab<T> slab(scratch(count, all));
      const Chunk chunk = load(slab, first, count, carried);
      const MatrixView<T> block = scores_of(scores, first, count, all);
      gemm<T>(scale, transposed(chunk.carried), chunk.queries, 0, block);
      clear_rows_from(block, first + 1);
      gemm<T>(-scale, chunk.updates, chunk.meeting, 1, block);
      if (all == sequence.count) break;
      if (keep) {
        carried += all * size;
        std::copy_n(chunk.carried.data, all * size, carried);
      }
      gemm<T>(-1, chunk.vectors, transposed(chunk.updates), 1, MatrixView<T>{carried, size, all, size});
    }
  }

  /// `carried` is as the forward left it, and `d_carried` scratch of [D, tokens].
  void backward(const PositionScoresGradients<T>& gradients, T* carried, T* d_carried) const {
    eigen(MatrixView<T>{d_carried, size, sequence.count, size}).setZero();
    const Index chunks = sequence.count == 0 ? 0 : (sequence.count - 1) / chunk_size + 1;
    T* block_of_carried = carried + kept_keys(sequence.count, chunk_size) * size;
    for (Index i = chunks; i-- > 0;) {
      const Index first = i * chunk_size, count = std::min(chunk_size, sequence.count - first),
                  all = first + count;
      block_of_carried -= all * size;
      Slab<T> slab(scratch(count, all) + ChunkGradients::scratch(size, count, all));
      const Chunk chunk = load(slab, first, count, block_of_carried);
      const ChunkGradients d(slab, size, count, all);
      scores_backward(gradients, chunk, first, d);
      // The keys after the chunk.
      const MatrixView<T> d_next{d_carried, size, all, size};
      eigen(d.keys) += eigen(d_next);
      gemm<T>(-1, d_next, chunk.updates, 1, d.vectors);
      gemm<T>(-1, transposed(d_next), chunk.vectors, 1, d.updates);
      updates_backward(gradients, chunk, first, d);
      reach_backward(gradients, chunk, first, d);
      for (Index r = 0; r < count; ++r) {
        std::copy_n(d.queries.column(r), size, vector(gradients.d_queries, first + r));
        std::copy_n(d.vectors.column(r), size, vector(gradients.d_vectors, first + r));
        std::copy_n(d.keys.column(first + r), size, vector(gradients.d_keys, first + r));
      }
      eigen(d_next) = eigen(d.keys);
    }
  }

  struct Chunk {
    MatrixView<T> carried, queries, vectors, inverse, updates, meeting;
  };
  /// The gradients of a chunk, and matrices for products.
  struct ChunkGradients {
    MatrixView<T> scores, updates, reach;    // [M, C]
    MatrixView<T> keys;                      // [D, M]
    MatrixView<T> queries, vectors, scaled;  // [D, C]
    MatrixView<T> meeting, products;         // [C, C]

    ChunkGradients(Slab<T>& slab, Index size, Index count, Index all)
        : scores(slab.matrix(all, count)),
          updates(slab.matrix(all, count)),
          reach(slab.matrix(all, count)),
          keys(slab.matrix(size, all)),
          queries(slab.matrix(size, count)),
          vectors(slab.matrix(size, count)),
          scaled(slab.matrix(size, count)),
          meeting(slab.matrix(count, count)),
          products(slab.matrix(count, count)) {}
    /// Numbers that these take.
    static Index scratch(Index size, Index count, Index all) {
      return all * (3 * count + size) + count * (3 * size + 2 * count);
    }
  };

  /// From the gradient of the scores to those of queries, keys, vectors and updates. Scores of later keys are
  /// no function of anything.
  void scores_backward(const PositionScoresGradients<T>& gradients, const Chunk& chunk, Index first,
                       const ChunkGradients& d) const {
    const Shape& shape = gradients.d_scores.shape();
    for (Index t = 0; t < d.scores.cols; ++t) {
      const T* from = &gradients.d_scores.data()[(place * shape[2] + first + t) * shape[3]];
      std::copy_n(from, d.scores.rows, d.scores.column(t));
    }
    clear_rows_from(d.scores, first + 1);
    gemm<T>(scale, chunk.carried, d.scores, 0, d.queries);
    gemm<T>(scale, chunk.queries, transposed(d.scores), 0, d.keys);
    gemm<T>(-scale, d.scores, transposed(chunk.meeting), 0, d.updates);
    gemm<T>(-scale, transposed(chunk.updates), d.scores, 0, d.meeting);
    clear_rows_from(d.meeting, 1);
    gemm<T>(1, chunk.vectors, d.meeting, 1, d.queries);
    gemm<T>(1, chunk.queries, transposed(d.meeting), 0, d.vectors);
  }
  /// From the gradient of the updates, Y U = E with the coupling U, to that of E; adds to that of the
  /// vectors.
  void updates_backward(const PositionScoresGradients<T>& gradients, const Chunk& chunk, Index first,
                        const ChunkGradients& d) const {
    const MatrixView<T> d_coupling = d.meeting;
    gemm<T>(1, d.updates, transposed(chunk.inverse), 0, d.reach);
    gemm<T>(-1, transposed(chunk.updates), d.reach, 0, d_coupling);
    gemm<T>(1, transposed(chunk.vectors), chunk.vectors, 0, d.products);
    for (Index r = 0; r < d_coupling.cols; ++r) {
      T d_beta = 0;
      for (Index s = 0; s < r; ++s) d_beta += d_coupling(s, r) * d.products(s, r);
      *beta(gradients.d_betas, first + r) = d_beta;
      eigen(d_coupling).col(r).head(r) *= *beta(input.betas, first + r);
    }
    clear_rows_from(d_coupling, 0);
    gemm<T>(1, chunk.vectors, d_coupling, 1, d.vectors);
    gemm<T>(1, chunk.vectors, transposed(d_coupling), 1, d.vectors);
  }
  /// Adds what the gradient of the reach E is for those of keys, vectors and betas.
  void reach_backward(const PositionScoresGradients<T>& gradients, const Chunk& chunk, Index first,
                      const ChunkGradients& d) const {
    clear_rows_from(d.reach, first);
    scale_vectors(chunk.vectors, first, d.scaled);
    gemm<T>(1, d.scaled, transposed(d.reach), 1, d.keys);
    gemm<T>(1, chunk.carried, d.reach, 0, d.scaled);
    for (Index r = 0; r < d.scaled.cols; ++r) {
      *beta(gradients.d_betas, first + r) += eigen(chunk.vectors).col(r).dot(eigen(d.scaled).col(r));
      eigen(d.vectors).col(r) += *beta(input.betas, first + r) * eigen(d.scaled).col(r);
    }
  }

  /// Numbers that `load` takes.
  Index scratch(Index count, Index all) const {
    return 3 * size * count + 2 * count * count + 2 * all * count;
  }

  Chunk load(Slab<T>& slab, Index first, Index count, T* carried) const {
    const Index all = first + count;
    const Chunk chunk{.carried = {carried, size, all, size},
                      .queries = slab.matrix(size, count),
                      .vectors = slab.matrix(size, count),
                      .inverse = slab.matrix(count, count),
                      .updates = slab.matrix(all, count),
                      .meeting = slab.matrix(count, count)};
    const MatrixView<T> scaled = slab.matrix(size, count), reach = slab.matrix(all, count);
    for (Index r = 0; r < count; ++r) {
      std::copy_n(vector(input.queries, first + r), size, chunk.queries.column(r));
      std::copy_n(vector(input.vectors, first + r), size, chunk.vectors.column(r));
      std::copy_n(vector(input.keys, first + r), size, chunk.carried.column(first + r));
    }
    scale_vectors(chunk.vectors, first, scaled);
    gemm<T>(1, transposed(chunk.vectors), scaled, 0, chunk.inverse);
    gemm<T>(1, transposed(chunk.vectors), chunk.queries, 0, chunk.meeting);
    clear_rows_from(chunk.meeting, 1);
    invert_unit_upper(chunk.inverse);
    gemm<T>(1, transposed(chunk.carried), scaled, 0, reach);
    clear_rows_from(reach, first);
    gemm<T>(1, reach, chunk.inverse, 0, chunk.updates);
    return chunk;
  }

  template <class U>
  U* vector(TensorView<U> x, Index token) const {
    return x.data() + (sequence.row(token) * heads + head) * size;
  }
  template <class U>
  U* beta(TensorView<U> x, Index token) const {
    return x.data() + sequence.row(token) * heads + head;
  }
  void scale_vectors(MatrixView<T> vectors, Index first, MatrixView<T> to) const {
    for (Index r = 0; r < vectors.cols; ++r)
      eigen(to).col(r) = *beta(input.betas, first + r) * eigen(vectors).col(r);
  }
  /// The scores of a chunk's queries with all keys so far.
  MatrixView<T> scores_of(TensorView<T> scores, Index first, Index count, Index all) const {
    const Index length = scores.shape()[2];
    return {scores.data() + (place * length + first) * length, all, count, length};
  }
};

/// Where each head's keys begin in memory for the heads of all sequences, one after another.
class KeyPlaces {
 public:
  /// With `keep` each head has room for HeadScores::kept_keys, else for all tokens' keys.
  template <class T>
  KeyPlaces(const PositionScoresInput<T>& input, const TokenLayout& layout,
            const PositionScoresOptions& options, bool keep, Saved& saved)
      : heads_(input.keys.shape()[1]),
        size_(input.keys.shape()[2]),
        first_(saved.push<Index>({layout.size() + 1})) {
    const Index chunk = chunk_tokens(layout, options);
    first_(0) = 0;
    for (Index b = 0; b < layout.size(); ++b) {
      const Index count = layout[b].count;
      first_(b + 1) = first_(b) + heads_ * (keep ? HeadScores<T>::kept_keys(count, chunk) : count);
    }
  }
  Shape shape() const { return {first_(first_.size() - 1), size_}; }
  /// Offset of a head in a tensor of this shape.
  Index operator()(Index b, Index head) const {
    return (first_(b) + (first_(b + 1) - first_(b)) / heads_ * head) * size_;
  }

 private:
  Index heads_, size_;
  TensorView<Index> first_;
};

/// Pushes two tensors: the places, and the carried keys.
template <class T>
void run_forward(const PositionScoresInput<T>& input, const TokenLayout& layout,
                 const PositionScoresOptions& options, TensorView<T> scores, bool keep, Saved& saved) {
  check<T>(input, layout, options, "scores", scores, saved);
  set_zero(scores);
  if constexpr (has_cuda_bodies) {
    if (saved.device().is_cuda())
      return cuda::position_scores<T>(input, layout, options, scores, keep, saved);
  }
  const KeyPlaces places(input, layout, options, keep, saved);
  const TensorView<T> carried = saved.push<T>(places.shape());
  for_each_head(layout.size(), input.keys.shape()[1], [&](Index b, Index head) {
    HeadScores<T>{input, layout, options, b, head}.forward(scores, carried.data() + places(b, head), keep);
  });
}

}  // namespace

template <class T>
void position_scores_forward(const PositionScoresInput<T>& input, const TokenLayout& layout,
                             const PositionScoresOptions& options, TensorView<T> scores, Saved& saved) {
  push_all_or_nothing(saved, [&] { run_forward(input, layout, options, scores, true, saved); });
}

template <class T>
void position_scores(const PositionScoresInput<T>& input, const TokenLayout& layout,
                     const PositionScoresOptions& options, TensorView<T> scores, Saved& scratch) {
  const Saved::Scope scope(scratch);
  run_forward(input, layout, options, scores, false, scratch);
}

template <class T>
void position_scores_backward(const PositionScoresInput<T>& input, const TokenLayout& layout,
                              const PositionScoresOptions& options,
                              const PositionScoresGradients<T>& gradients, Saved& saved) {
  check<T>(input, layout, options, "d_scores", gradients.d_scores, saved);
  check_tensors("position_scores", saved,
                {{"d_queries", gradients.d_queries, input.queries.shape()},
                 {"d_keys", gradients.d_keys, input.keys.shape()},
                 {"d_vectors", gradients.d_vectors, input.vectors.shape()},
                 {"d_betas", gradients.d_betas, input.betas.shape()}});
  clear_padding<T>(layout, {gradients.d_queries, gradients.d_keys, gradients.d_vectors, gradients.d_betas});
  if constexpr (has_cuda_bodies) {
    if (saved.device().is_cuda())
      return cuda::position_scores_backward<T>(input, layout, options, gradients, saved);
  }
  const TensorView<T> carried = saved.top<T>();
  {
    const Saved::Scope scope(saved);
    const KeyPlaces kept(input, layout, options, true, saved), places(input, layout, options, false, saved);
    check_shape("keys that the forward kept", carried.shape(), kept.shape());
    const TensorView<T> d_carried = saved.push<T>(places.shape());
    for_each_head(layout.size(), input.keys.shape()[1], [&](Index b, Index head) {
      HeadScores<T>{input, layout, options, b, head}.backward(gradients, carried.data() + kept(b, head),
                                                              d_carried.data() + places(b, head));
    });
  }
  saved.pop(2);
}

#define ORTHORNN_INSTANTIATE(T)                                                                              \
  template void position_scores<T>(const PositionScoresInput<T>&, const TokenLayout&,                        \
                                   const PositionScoresOptions&, TensorView<T>, Saved&);                     \
  template void position_scores_forward<T>(const PositionScoresInput<T>&, const TokenLayout&,                \
                                           const PositionScoresOptions&, TensorView<T>, Saved&);             \
  template void position_scores_backward<T>(const PositionScoresInput<T>&, const TokenLayout&,               \
                                            const PositionScoresOptions&, const PositionScoresGradients<T>&, \
                                            Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
