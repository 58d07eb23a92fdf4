#include "orthornn/delta/rank_one_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/back_end.hpp"
#include "cuda/delta/rank_one_chain.hpp"
#include "delta/chunk_matrices.hpp"
#include "delta/delta_checks.hpp"
#include "delta/saved_memory.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {
namespace {

template <class T>
void check(const RankOneChainInput<T>& input, const TokenLayout& layout, const RankOneChainOptions& options,
           const Saved& saved) {
  const Shape left = input.left.shape();
  if (left.rank() != 3)
    throw ShapeError("left vectors have shape " + to_string(left) + "; expected [R, H, D]");
  const Shape scales{left[0], left[1]};
  check_tensors("rank_one_chain", saved,
                {{"left vectors", input.left, {layout.rows(), left[1], left[2]}},
                 {"right vectors", input.right, left},
                 {"left scales", input.left_scales, scales, if_any},
                 {"right scales", input.right_scales, scales, if_any}});
  check_chunk(options.chunk, "factors");
}

template <class T>
void check_states(const RankOneChainInput<T>& input, const TokenLayout& layout, const Saved& saved) {
  const Shape states = input.initial_states.shape(), left = input.left.shape();
  if (states.rank() != 4)
    throw ShapeError("initial states have shape " + to_string(states) + "; expected [B, H, D, M]");
  check_tensors("rank_one_chain", saved,
                {{"initial states", input.initial_states, {layout.size(), left[1], left[2], states[3]}}});
}

/// All that the phases of a forward and a backward share. For a chunk of C factors of one head
///
///     coupling [C, C]:  -q_s . k_r for s < r, 1 for s = r, 0 else; its inverse is kept
///     updates [C, M]:   u, which is U^T in memory
template <class T>
struct Chain {
  const RankOneChainInput<T>& input;
  const TokenLayout& layout;
  const RankOneChainOptions& options;
  Saved& saved;
  /// H, D and M.
  Index heads = input.left.shape()[1], size = input.left.shape()[2],
        columns = input.initial_states.shape()[3];
  SequenceParts chunks{layout, options.chunk, saved};
  /// Inverses of coupling [chunks, H, C, C], and s before each chunk [chunks, H, D, M].
  TensorView<T> inverses{}, states{};

  /// Pushes these, and returns updates.
  TensorView<T> push_kept() {
    inverses = saved.push<T>(inverses_shape());
    states = saved.push<T>(states_shape());
    return saved.push<T>(updates_shape());
  }
  /// Shapes of these, and of updates.
  Shape inverses_shape() const { return {chunks.size(), heads, chunks.part_tokens(), chunks.part_tokens()}; }
  Shape states_shape() const { return {chunks.size(), heads, size, columns}; }
  Shape updates_shape() const { return {chunks.size(), heads, chunks.part_tokens(), columns}; }

  Index row(const SequenceParts::Part& part, Index r) const {
    return layout[part.sequence].row(part.first_token + r);
  }
  /// Where the vector of factor r of a chunk is in a tensor [R, H, M].
  template <class U>
  U* at(TensorView<U> x, const SequenceParts::Part& part, Index r, Index head) const {
    return x.data() + (row(part, r) * heads + head) * columns;
  }
  /// q or k of a chunk, as columns.
  void gather(TensorView<const T> vectors, TensorView<const T> scales, const SequenceParts::Part& part,
              Index head, MatrixView<T> to) const {
    for (Index r = 0; r < part.tokens; ++r) {
      const Index place = row(part, r) * heads + head;
      std::copy_n(vectors.data() + place * size, size, to.column(r));
      if (!scales.empty()) eigen(to).col(r) *= scales.data()[place];
    }
  }
  void gather_left(const SequenceParts::Part& part, Index head, MatrixView<T> to) const {
    gather(input.left, input.left_scales, part, head, to);
  }
  void gather_right(const SequenceParts::Part& part, Index head, MatrixView<T> to) const {
    gather(input.right, input.right_scales, part, head, to);
  }
  /// The gradients of q' or k' and of their scales, from that of q or k.
  void scatter_gradient(TensorView<const T> vectors, TensorView<const T> scales, MatrixView<T> d,
                        const SequenceParts::Part& part, Index head, TensorView<T> d_vectors,
                        TensorView<T> d_scales) const {
    for (Index r = 0; r < part.tokens; ++r) {
      const Index place = row(part, r) * heads + head;
      if (!scales.empty()) {
        const MatrixView<const T> vector{vectors.data() + place * size, size, 1, size};
        d_scales.data()[place] = eigen(vector).col(0).dot(eigen(d).col(r));
        eigen(d).col(r) *= scales.data()[place];
      }
      std::copy_n(d.column(r), size, d_vectors.data() + place * size);
    }
  }
  MatrixView<T> inverse(Index chunk, Index head) const {
    return matrix_of(inverses, chunk * heads + head, chunks[chunk].tokens, chunks[chunk].tokens);
  }
  /// The columns of a chunk in a tensor [chunks, H, C, M], and those of its state in [chunks, H, D, M].
  MatrixView<T> updates_of(TensorView<T> tensor, Index chunk, Index head) const {
    return matrix_of(tensor, chunk * heads + head, columns, chunks[chunk].tokens);
  }
  MatrixView<T> state_of(TensorView<T> tensor, Index chunk, Index head) const {
    return matrix_of(tensor, chunk * heads + head, columns, size);
  }
};

template <class T>
void couple(const Chain<T>& chain, Index index, Index head) {
  const SequenceParts::Part part = chain.chunks[index];
  Slab<T> slab(2 * chain.size * part.tokens);
  const MatrixView<T> left = slab.matrix(chain.size, part.tokens),
                      right = slab.matrix(chain.size, part.tokens);
  chain.gather_left(part, head, left);
  chain.gather_right(part, head, right);
  const MatrixView<T> coupling = chain.inverse(index, head);
  gemm<T>(-1, transposed(left), right, 0, coupling);
  invert_unit_upper(coupling);
}

/// From a chunk to the next: updates and states of some columns.
template <class T>
void advance(const Chain<T>& chain, TensorView<T> updates, TensorView<T> outputs, Index index,
             const ValueRange& values, MatrixView<T> state, MatrixView<T> next) {
  const Index head = values.head, count = values.count;
  const SequenceParts::Part part = chain.chunks[index];
  Slab<T> slab((chain.size + count) * part.tokens);
  const MatrixView<T> vectors = slab.matrix(chain.size, part.tokens),
                      right_side = slab.matrix(count, part.tokens);
  const MatrixView<T> u = chain.updates_of(updates, index, head).block(values.first, 0, count, part.tokens);
  chain.gather_right(part, head, vectors);
  gemm<T>(1, state, vectors, 0, right_side);
  gemm<T>(1, right_side, chain.inverse(index, head), 0, u);
  for (Index r = 0; r < part.tokens; ++r)
    std::copy_n(u.column(r), count, chain.at(outputs, part, r, head) + values.first);
  if (next.data == nullptr) return;
  chain.gather_left(part, head, vectors);
  eigen(next) = eigen(state);
  gemm<T>(1, u, transposed(vectors), 1, next);
}

/// Gradients of the right sides [chunks, H, C, M], and of the state after each chunk [chunks, H, D, M].
template <class T>
struct ChainGradients {
  TensorView<T> d_right_sides, d_states;
};

/// From a chunk to the one before it.
template <class T>
void advance_backward(const Chain<T>& chain, TensorView<const T> all_d_outputs, TensorView<T> d_right_sides,
                      Index index, const ValueRange& values, MatrixView<T> d_after, MatrixView<T> d_before) {
  const Index head = values.head, count = values.count;
  const SequenceParts::Part part = chain.chunks[index];
  Slab<T> slab((chain.size + count) * part.tokens);
  const MatrixView<T> vectors = slab.matrix(chain.size, part.tokens),
                      d_updates = slab.matrix(count, part.tokens);
  for (Index r = 0; r < part.tokens; ++r)
    std::copy_n(chain.at(all_d_outputs, part, r, head) + values.first, count, d_updates.column(r));
  chain.gather_left(part, head, vectors);
  gemm<T>(1, d_after, vectors, 1, d_updates);
  const MatrixView<T> d_right_side =
      chain.updates_of(d_right_sides, index, head).block(values.first, 0, count, part.tokens);
  gemm<T>(1, d_updates, transposed(chain.inverse(index, head)), 0, d_right_side);
  if (d_before.data == nullptr) return;
  chain.gather_right(part, head, vectors);
  eigen(d_before) = eigen(d_after);
  gemm<T>(1, d_right_side, transposed(vectors), 1, d_before);
}

template <class T>
void gather_gradients(const Chain<T>& chain, const RankOneChainGradients<T>& gradients,
                      TensorView<T> all_updates, const ChainGradients<T>& between, Index index, Index head) {
  const SequenceParts::Part part = chain.chunks[index];
  const Index steps = part.tokens;
  Slab<T> slab(4 * chain.size * steps + steps * steps);
  const MatrixView<T> left = slab.matrix(chain.size, steps), right = slab.matrix(chain.size, steps),
                      d_left = slab.matrix(chain.size, steps), d_right = slab.matrix(chain.size, steps),
                      d_products = slab.matrix(steps, steps);
  chain.gather_left(part, head, left);
  chain.gather_right(part, head, right);
  const MatrixView<T> updates = chain.updates_of(all_updates, index, head),
                      d_right_side = chain.updates_of(between.d_right_sides, index, head);
  // Of q_s . k_r for s < r.
  gemm<T>(1, transposed(updates), d_right_side, 0, d_products);
  clear_rows_from(d_products, 0);
  gemm<T>(1, right, transposed(d_products), 0, d_left);
  gemm<T>(1, transposed(chain.state_of(between.d_states, index, head)), updates, 1, d_left);
  gemm<T>(1, left, d_products, 0, d_right);
  gemm<T>(1, transposed(chain.state_of(chain.states, index, head)), d_right_side, 1, d_right);
  chain.scatter_gradient(chain.input.left, chain.input.left_scales, d_left, part, head, gradients.d_left,
                         gradients.d_left_scales);
  chain.scatter_gradient(chain.input.right, chain.input.right_scales, d_right, part, head, gradients.d_right,
                         gradients.d_right_scales);
}

template <class T>
void run_forward(const RankOneChainInput<T>& input, const TokenLayout& layout,
                 const RankOneChainOptions& options, TensorView<T> outputs, TensorView<T> final_states,
                 bool keep, Saved& saved) {
  check(input, layout, options, saved);
  check_states(input, layout, saved);
  const Shape states = input.initial_states.shape();
  check_tensors("rank_one_chain", saved,
                {{"outputs", outputs, {layout.rows(), states[1], states[3]}},
                 {"final states", final_states, states, if_any}});
  clear_padding<T>(layout, {outputs});
  if constexpr (has_cuda_bodies) {
    if (saved.device().is_cuda())
      return cuda::rank_one_chain<T>(input, layout, options, outputs, final_states, keep, saved);
  }
  Chain<T> chain{input, layout, options, saved};
  const TensorView<T> updates = chain.push_kept();
  for_each_head(chain.chunks.size(), chain.heads,
                [&](Index index, Index head) { couple(chain, index, head); });
  sweep_chunks<T>(chain.chunks, layout.size(),
                  {.of_chunks = chain.states, .start = input.initial_states, .finish = final_states},
                  SweepDirection::forward,
                  [&](Index index, const ValueRange& values, MatrixView<T> state, MatrixView<T> next) {
                    advance(chain, updates, outputs, index, values, state, next);
                  });
}

template <class T>
void check_gradients(const RankOneChainInput<T>& input, const TokenLayout& layout,
                     const RankOneChainGradients<T>& g, const Saved& saved) {
  const Shape states = input.initial_states.shape();
  check_tensors("rank_one_chain", saved,
                {{"d_outputs", g.d_outputs, {layout.rows(), states[1], states[3]}},
                 {"d_final_states", g.d_final_states, states, if_any},
                 {"d_left", g.d_left, input.left.shape()},
                 {"d_right", g.d_right, input.right.shape()},
                 {"d_left_scales", g.d_left_scales, input.left_scales.shape()},
                 {"d_right_scales", g.d_right_scales, input.right_scales.shape()},
                 {"d_initial_states", g.d_initial_states, states, if_any}});
}

}  // namespace

template <class T>
void rank_one_chain_forward(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, TensorView<T> outputs,
                            TensorView<T> final_states, Saved& saved) {
  push_all_or_nothing(saved,
                      [&] { run_forward(input, layout, options, outputs, final_states, true, saved); });
}

template <class T>
void rank_one_chain(const RankOneChainInput<T>& input, const TokenLayout& layout,
                    const RankOneChainOptions& options, TensorView<T> outputs, TensorView<T> final_states,
                    Saved& scratch) {
  const Saved::Scope scope(scratch);
  run_forward(input, layout, options, outputs, final_states, false, scratch);
}

template <class T>
void rank_one_chain_backward(const RankOneChainInput<T>& input, const TokenLayout& layout,
                             const RankOneChainOptions& options, const RankOneChainGradients<T>& gradients,
                             Saved& saved) {
  check(input, layout, options, saved);
  check_states(input, layout, saved);
  check_gradients(input, layout, gradients, saved);
  clear_padding<T>(layout,
                   {gradients.d_left, gradients.d_right, gradients.d_left_scales, gradients.d_right_scales});
  if constexpr (has_cuda_bodies) {
    if (saved.device().is_cuda())
      return cuda::rank_one_chain_backward<T>(input, layout, options, gradients, saved);
  }

  const TensorView<T> inverses = saved.top<T>(2), kept_states = saved.top<T>(1), updates = saved.top<T>(0);
  {
    const Saved::Scope scope(saved);
    Chain<T> chain{input, layout, options, saved};
    check_shape("inverses that the forward kept", inverses.shape(), chain.inverses_shape());
    check_shape("states that the forward kept", kept_states.shape(), chain.states_shape());
    check_shape("updates that the forward kept", updates.shape(), chain.updates_shape());
    chain.inverses = inverses;
    chain.states = kept_states;
    const ChainGradients<T> between{.d_right_sides = saved.push<T>(updates.shape()),
                                    .d_states = saved.push<T>(kept_states.shape())};
    sweep_chunks<T>(
        chain.chunks, layout.size(),
        {.of_chunks = between.d_states,
         .start = gradients.d_final_states,
         .finish = gradients.d_initial_states},
        SweepDirection::backward,
        [&](Index index, const ValueRange& values, MatrixView<T> d_after, MatrixView<T> d_before) {
          advance_backward<T>(chain, gradients.d_outputs, between.d_right_sides, index, values, d_after,
                              d_before);
        });
    for_each_head(chain.chunks.size(), chain.heads, [&](Index index, Index head) {
      gather_gradients(chain, gradients, updates, between, index, head);
    });
  }
  saved.pop(4);
}

template <class T>
void rank_one_chain_inverse(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, TensorView<T> inverses, Saved& scratch) {
  check(input, layout, options, scratch);
  const Index rows = layout.rows(), heads = input.left.shape()[1], size = input.left.shape()[2];
  check_tensors("rank_one_chain", scratch, {{"inverses", inverses, {layout.size(), heads, size, size}}});
  if constexpr (has_cuda_bodies) {
    if (scratch.device().is_cuda())
      return cuda::rank_one_chain_inverse<T>(input, layout, options, inverses, scratch);
  }
  const Saved::Scope scope(scratch);
  // s^-1 = r with r_t = r_{t-1} (I + c q' k^T), c = -alpha / (1 + q^T k): the mirrored chain.
  const TensorView<T> scales = scratch.push<T>({rows, heads}), outputs = scratch.push<T>({rows, heads, size}),
                      start = scratch.push<T>(inverses.shape()), result = scratch.push<T>(inverses.shape());
  std::fill(scales.begin(), scales.end(), T{0});
  for (Index b = 0; b < layout.size(); ++b) {
    for (Index t = 0; t < layout[b].count; ++t) {
      for (Index h = 0; h < heads; ++h) {
        const Index row = layout[b].row(t);
        const T alpha = input.left_scales.empty() ? T{1} : input.left_scales(row, h);
        const T beta = input.right_scales.empty() ? T{1} : input.right_scales(row, h);
        T product = 0, sizes = 0;
        for (Index i = 0; i < size; ++i) {
          const T term = alpha * beta * input.left(row, h, i) * input.right(row, h, i);
          product += term;
          sizes += std::abs(term);
        }
        const T determinant = 1 + product;
        // No larger than its own rounding.
        if (!(std::abs(determinant) > 4 * std::numeric_limits<T>::epsilon() * (1 + sizes)))
          throw ValueError(fmt::format("factor {} of sequence {}, head {}, has no inverse: 1 + q^T k is {}",
                                       t, b, h, determinant));
        scales(row, h) = -alpha / determinant;
      }
    }
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < size; ++i) {
        for (Index j = 0; j < size; ++j) start(b, h, i, j) = i == j;
      }
    }
  }
  rank_one_chain<T>({.left = input.right,
                     .right = input.left,
                     .left_scales = input.right_scales,
                     .right_scales = scales,
                     .initial_states = start},
                    layout, options, outputs, result, scratch);
  // The chain is that of r^T.
  for (Index i = 0; i < layout.size() * heads; ++i)
    eigen(matrix_of(inverses, i, size, size)) = eigen(matrix_of(result, i, size, size)).transpose();
}

template <class T>
SavedMemory memory_of(const ChainWork<T>& work) {
  check_chunk(work.options.chunk, "factors");
  if constexpr (has_cuda_bodies) {
    const Device device = work.saved.device();
    if (device.is_cuda())
      return with_layout_table(cuda::memory_of_chain(work.input, work.layout, work.options, device),
                               work.layout, device);
  }
  const Saved::Scope scope(work.saved);
  const Chain<T> chain{work.input, work.layout, work.options, work.saved};
  const auto bytes = [](const Shape& shape) { return Saved::bytes_of(shape, sizeof(T)); };
  const std::size_t between =
      SequenceParts::bytes(work.layout) + bytes(chain.states_shape()) + bytes(chain.updates_shape());
  const std::size_t kept = between + bytes(chain.inverses_shape());
  return {.kept = kept, .keeping = 0, .forward = kept, .backward = between};
}

template <class T>
void push_kept(const ChainWork<T>& work) {
  if constexpr (has_cuda_bodies) {
    if (work.saved.device().is_cuda())
      return cuda::push_kept_of_chain(work.input, work.layout, work.options, work.saved);
  }
  Chain<T>{work.input, work.layout, work.options, work.saved}.push_kept();
}

#define ORTHORNN_INSTANTIATE(T)                                                                              \
  template void rank_one_chain<T>(const RankOneChainInput<T>&, const TokenLayout&,                           \
                                  const RankOneChainOptions&, TensorView<T>, TensorView<T>, Saved&);         \
  template void rank_one_chain_forward<T>(const RankOneChainInput<T>&, const TokenLayout&,                   \
                                          const RankOneChainOptions&, TensorView<T>, TensorView<T>, Saved&); \
  template void rank_one_chain_backward<T>(const RankOneChainInput<T>&, const TokenLayout&,                  \
                                           const RankOneChainOptions&, const RankOneChainGradients<T>&,      \
                                           Saved&);                                                          \
  template void rank_one_chain_inverse<T>(const RankOneChainInput<T>&, const TokenLayout&,                   \
                                          const RankOneChainOptions&, TensorView<T>, Saved&);                \
  template SavedMemory memory_of<T>(const ChainWork<T>&);                                                    \
  template void push_kept<T>(const ChainWork<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
