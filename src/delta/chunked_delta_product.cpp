#include "delta/chunked_delta_product.hpp"

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "delta/sequence_parts.hpp"
#include "delta/slab.hpp"
#include "delta/unit_key.hpp"
#include "delta/value_parts.hpp"
#include "linalg/block_kernel.hpp"
#include "linalg/eigen_map.hpp"
#include "linalg/gemm.hpp"
#include "linalg/triangular_inverse.hpp"

namespace orthornn {
namespace {

template <class T>
T dot(MatrixView<T> a, MatrixView<T> b, Index column) {
  return eigen(a).col(column).dot(eigen(b).col(column));
}

/// The places of one head in one chunk: `tokens` tokens, C = tokens * n micro-steps.
template <class T>
class Chunk {
 public:
  Chunk(const DeltaProductInput<T>& input, const TokenLayout& layout, const DeltaProductOptions& options,
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
/// sum of its own: see README.md.
template <class T>
class Decays {
 public:
  static Index scratch(Index tokens) { return 2 * tokens; }
  Decays(const Chunk<T>& chunk, Slab<T>& slab)
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
MatrixView<T> decays_between(const Chunk<T>& chunk, Slab<T>& slab) {
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
struct Kept {
  /// U^-1 [chunks, H, C, C], updates [chunks, H, C, V], S before each chunk [chunks, H, K, V], and P
  /// [chunks, H, tokens, C].
  TensorView<T> inverse, updates, states, scores;
  static constexpr Index tensors = 4;
};

/// What all phases of a forward and a backward share.
template <class T>
class Work {
 public:
  Work(const DeltaProductInput<T>& in, const TokenLayout& where, const DeltaProductOptions& how, Saved& saved)
      : input(in),
        layout(where),
        options(how),
        sizes(in),
        tokens(std::max<Index>(1, how.chunk / sizes.factors)),
        micro_steps(tokens * sizes.factors),
        scale(static_cast<T>(how.scale)),
        chunks(where, tokens, saved) {}

  const DeltaProductInput<T>& input;
  const TokenLayout& layout;
  const DeltaProductOptions& options;
  const DeltaSizes sizes;
  /// Of a whole chunk.
  const Index tokens, micro_steps;
  const T scale;
  const SequenceParts chunks;
  Kept<T> kept{};

  Chunk<T> chunk(Index index, Index head) const { return {input, layout, options, chunks[index], head}; }
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

  /// Calls body(chunk, head) for all of them, on all threads.
  template <class Body>
  void for_each_chunk(const Body& body) const {
    parallel_for(chunks.size() * sizes.heads, 1, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) body(i / sizes.heads, i % sizes.heads);
    });
  }
  /// Calls body(sequence, head, first value, number of values) for all of them, on all threads. The values of
  /// a state do not mix, so that few heads still use all threads.
  template <class Body>
  void for_each_state(const Body& body) const {
    const ValueParts parts(layout.size() * sizes.heads, sizes.value, block_kernel::row_group<T>);
    parallel_for(parts.size(), 1, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) {
        const ValueParts::Part part = parts[i];
        body(part.pair / sizes.heads, part.pair % sizes.heads, part.first, part.count);
      }
    });
  }

 private:
  Index place(Index index, Index head) const { return index * sizes.heads + head; }
};

/// U^-1 and P.
template <class T>
void couple(const Work<T>& work, Index index, Index head) {
  const Chunk<T> chunk = work.chunk(index, head);
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
void advance(const Work<T>& work, TensorView<T> final_states, Index b, Index head, Index first, Index count) {
  const DeltaSizes& sizes = work.sizes;
  const auto state_of = [&](auto tensor, Index i) {
    return matrix_of(tensor, i * sizes.heads + head, sizes.value, sizes.key)
        .block(first, 0, count, sizes.key);
  };
  const Index begin = work.chunks.begin(b), end = work.chunks.end(b);
  const auto state_before = [&](Index index) {
    return index < end            ? state_of(work.kept.states, index)
           : final_states.empty() ? MatrixView<T>()
                                  : state_of(final_states, b);
  };
  if (const MatrixView<T> start = state_before(begin); start.data != nullptr) {
    if (work.input.initial_states.empty()) {
      eigen(start).setZero();
    } else {
      eigen(start) = eigen(state_of(work.input.initial_states, b));
    }
  }
  for (Index index = begin; index < end; ++index) {
    const Chunk<T> chunk = work.chunk(index, head);
    const Index steps = chunk.micro_steps();
    Slab<T> slab(2 * sizes.key * steps + count * steps + Decays<T>::scratch(chunk.tokens()));
    const Decays<T> decays(chunk, slab);
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
      const T* v = chunk.at_micro_step(work.input.values, r) + first;
      for (Index i = 0; i < count; ++i) errors(i, r) = chunk.beta(r) * (v[i] - errors(i, r));
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
void read_out(const Work<T>& work, TensorView<T> outputs, Index index, Index head) {
  const Chunk<T> chunk = work.chunk(index, head);
  const Index tokens = chunk.tokens();
  Slab<T> slab((work.sizes.key + work.sizes.value) * tokens + Decays<T>::scratch(tokens));
  const Decays<T> decays(chunk, slab);
  const MatrixView<T> queries = slab.matrix(work.sizes.key, tokens),
                      result = slab.matrix(work.sizes.value, tokens);
  chunk.gather_queries(queries);
  for (Index t = 0; t < tokens; ++t) eigen(queries).col(t) *= work.scale * decays.start(t);
  gemm<T>(1, work.of_micro_steps(work.kept.updates, index, head), work.scores(index, head), 0, result);
  gemm<T>(1, work.of_state(work.kept.states, index, head), queries, 1, result);
  for (Index t = 0; t < tokens; ++t) std::copy_n(result.column(t), result.rows, chunk.at_token(outputs, t));
}

/// From chunk to chunk, backward: gradients of the errors [chunks, H, C, V], and of the state after each
/// chunk [chunks, H, K, V].
template <class T>
struct ChunkGradients {
  TensorView<T> d_errors, d_states;
};

template <class T>
void advance_backward(const Work<T>& work, const DeltaProductGradients<T>& gradients,
                      const ChunkGradients<T>& between, Index b, Index head, Index first, Index count) {
  const DeltaSizes& sizes = work.sizes;
  const auto state_of = [&](auto tensor, Index i) {
    return matrix_of(tensor, i * sizes.heads + head, sizes.value, sizes.key)
        .block(first, 0, count, sizes.key);
  };
  const Index begin = work.chunks.begin(b), end = work.chunks.end(b);
  const auto d_state_after = [&](Index index) {
    return index >= begin                       ? state_of(between.d_states, index)
           : gradients.d_initial_states.empty() ? MatrixView<T>()
                                                : state_of(gradients.d_initial_states, b);
  };
  if (const MatrixView<T> last = d_state_after(end - 1); last.data != nullptr) {
    if (gradients.d_final_states.empty()) {
      eigen(last).setZero();
    } else {
      eigen(last) = eigen(state_of(gradients.d_final_states, b));
    }
  }
  for (Index index = end; index-- > begin;) {
    const Chunk<T> chunk = work.chunk(index, head);
    const Index steps = chunk.micro_steps(), tokens = chunk.tokens();
    Slab<T> slab(sizes.key * (2 * steps + tokens) + count * (steps + tokens) + Decays<T>::scratch(tokens));
    const Decays<T> decays(chunk, slab);
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
void gather_gradients(const Work<T>& work, const DeltaProductGradients<T>& gradients,
                      const ChunkGradients<T>& between, Index index, Index head) {
  const DeltaSizes& sizes = work.sizes;
  const Chunk<T> chunk = work.chunk(index, head);
  const Index steps = chunk.micro_steps(), tokens = chunk.tokens();
  Slab<T> slab(steps * (3 * sizes.key + 2 * sizes.value + 2 * steps + tokens + 2) +
               tokens * (3 * sizes.key + sizes.value + 1 + steps) + Decays<T>::scratch(tokens));
  const Decays<T> decays(chunk, slab);
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
    d_logs(t, 0) += dot(queries, query_part, t);
    eigen(d_queries).col(t) += eigen(query_part).col(t);
    std::copy_n(d_queries.column(t), sizes.key, chunk.at_token(gradients.d_queries, t));
  }
  gemm<T>(1, queries, transposed(d_scores), 0, d_keys);

  // 2. The state after the chunk.
  gemm<T>(1, transposed(d_after), updates, 0, key_part);
  for (Index r = 0; r < steps; ++r) {
    eigen(key_part).col(r) *= decays.end(chunk.token_of(r));
    count_decay(chunk.token_of(r), tokens - 1, dot(keys, key_part, r));
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
    d_logs(t, 0) -= dot(keys, key_part, r);
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
void chunked_delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, TensorView<T> outputs,
                           TensorView<T> final_states, Saved& saved) {
  Work<T> work(input, layout, options, saved);
  const Index chunks = work.chunks.size(), heads = work.sizes.heads, steps = work.micro_steps;
  work.kept = {.inverse = saved.push<T>({chunks, heads, steps, steps}),
               .updates = saved.push<T>({chunks, heads, steps, work.sizes.value}),
               .states = saved.push<T>({chunks, heads, work.sizes.key, work.sizes.value}),
               .scores = saved.push<T>({chunks, heads, work.tokens, steps})};
  work.for_each_chunk([&](Index index, Index head) { couple(work, index, head); });
  work.for_each_state([&](Index b, Index head, Index first, Index count) {
    advance(work, final_states, b, head, first, count);
  });
  work.for_each_chunk([&](Index index, Index head) { read_out(work, outputs, index, head); });
}

template <class T>
void chunked_delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                                    const DeltaProductOptions& options,
                                    const DeltaProductGradients<T>& gradients, Saved& saved) {
  const Kept<T> kept{saved.top<T>(3), saved.top<T>(2), saved.top<T>(1), saved.top<T>(0)};
  const Index forward_tensors = Kept<T>::tensors + 1;
  {
    const Saved::Scope scope(saved);
    Work<T> work(input, layout, options, saved);
    work.kept = kept;
    const ChunkGradients<T> between{.d_errors = saved.push<T>(kept.updates.shape()),
                                    .d_states = saved.push<T>(kept.states.shape())};
    work.for_each_state([&](Index b, Index head, Index first, Index count) {
      advance_backward(work, gradients, between, b, head, first, count);
    });
    work.for_each_chunk(
        [&](Index index, Index head) { gather_gradients(work, gradients, between, index, head); });
  }
  saved.pop(forward_tensors);
}

#define ORTHORNN_INSTANTIATE(T)                                                                             \
  template void chunked_delta_product<T>(const DeltaProductInput<T>&, const TokenLayout&,                   \
                                         const DeltaProductOptions&, TensorView<T>, TensorView<T>, Saved&); \
  template void chunked_delta_product_backward<T>(const DeltaProductInput<T>&, const TokenLayout&,          \
                                                  const DeltaProductOptions&,                               \
                                                  const DeltaProductGradients<T>&, Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
