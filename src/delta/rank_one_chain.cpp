#include "orthornn/delta/rank_one_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/back_end.hpp"
#include "cuda/delta/rank_one_chain.hpp"
#include "delta/delta_checks.hpp"
#include "delta/sequence_parts.hpp"
#include "delta/slab.hpp"
#include "delta/value_parts.hpp"
#include "linalg/block_kernel.hpp"
#include "linalg/eigen_map.hpp"
#include "linalg/gemm.hpp"
#include "linalg/triangular_inverse.hpp"

namespace orthornn {
namespace {

template <class T>
void check(const RankOneChainInput<T>& input, const TokenLayout& layout, const RankOneChainOptions& options,
           const Saved& saved) {
  check_on_device("rank_one_chain", saved,
                  {{"left vectors", input.left},
                   {"right vectors", input.right},
                   {"left scales", input.left_scales},
                   {"right scales", input.right_scales},
                   {"initial states", input.initial_states}});
  const Shape left = input.left.shape();
  if (left.rank() != 3)
    throw ShapeError("left vectors have shape " + to_string(left) + "; expected [R, H, D]");
  check_shape("left vectors", left, {layout.rows(), left[1], left[2]});
  check_shape("right vectors", input.right.shape(), left);
  if (!input.left_scales.empty()) check_shape("left scales", input.left_scales.shape(), {left[0], left[1]});
  if (!input.right_scales.empty())
    check_shape("right scales", input.right_scales.shape(), {left[0], left[1]});
  check_chunk(options.chunk, "factors");
}

template <class T>
void check_states(const RankOneChainInput<T>& input, const TokenLayout& layout) {
  const Shape states = input.initial_states.shape(), left = input.left.shape();
  if (states.rank() != 4)
    throw ShapeError("initial states have shape " + to_string(states) + "; expected [B, H, D, M]");
  check_shape("initial states", states, {layout.size(), left[1], left[2], states[3]});
}

/// All that the phases of a forward and a backward share. For a chunk of C factors of one head
///
///     coupling [C, C]:  -q_s . k_r for s < r, 1 for s = r, 0 else; its inverse is kept
///     updates [C, M]:   u, which is U^T in memory
template <class T>
class Chain {
 public:
  Chain(const RankOneChainInput<T>& in, const TokenLayout& where, const RankOneChainOptions& how,
        Saved& saved)
      : input(in),
        layout(where),
        heads(in.left.shape()[1]),
        size(in.left.shape()[2]),
        columns(in.initial_states.shape()[3]),
        chunks(where, how.chunk, saved) {}

  const RankOneChainInput<T>& input;
  const TokenLayout& layout;
  /// H, D and M.
  const Index heads, size, columns;
  const SequenceParts chunks;
  /// Inverses of coupling [chunks, H, C, C], and s before each chunk [chunks, H, D, M].
  TensorView<T> inverses, states;

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
  /// Some columns of M of a state, as the rows of M x D.
  template <class U>
  MatrixView<U> state(TensorView<U> tensor, Index i, Index head, Index first, Index count) const {
    return matrix_of(tensor, i * heads + head, columns, size).block(first, 0, count, size);
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
  for (Index r = 0; r < part.tokens; ++r) {
    coupling(r, r) = 1;
    std::fill(coupling.column(r) + r + 1, coupling.column(r) + part.tokens, T{0});
  }
  invert_upper_triangular(coupling);
}

/// From chunk to chunk: updates and states of some columns.
template <class T>
void advance(const Chain<T>& chain, TensorView<T> updates, TensorView<T> outputs, TensorView<T> final_states,
             Index b, Index head, Index first, Index count) {
  const Index begin = chain.chunks.begin(b), end = chain.chunks.end(b);
  const auto state_before = [&](Index index) {
    if (index < end) return chain.state(chain.states, index, head, first, count);
    return final_states.empty() ? MatrixView<T>() : chain.state(final_states, b, head, first, count);
  };
  if (const MatrixView<T> start = state_before(begin); start.data != nullptr)
    eigen(start) = eigen(chain.state(chain.input.initial_states, b, head, first, count));
  for (Index index = begin; index < end; ++index) {
    const SequenceParts::Part part = chain.chunks[index];
    Slab<T> slab((chain.size + count) * part.tokens);
    const MatrixView<T> vectors = slab.matrix(chain.size, part.tokens),
                        right_side = slab.matrix(count, part.tokens);
    const MatrixView<T> u = matrix_of(updates, index * chain.heads + head, chain.columns, part.tokens)
                                .block(first, 0, count, part.tokens);
    chain.gather_right(part, head, vectors);
    gemm<T>(1, state_before(index), vectors, 0, right_side);
    gemm<T>(1, right_side, chain.inverse(index, head), 0, u);
    for (Index r = 0; r < part.tokens; ++r)
      std::copy_n(u.column(r), count, chain.at(outputs, part, r, head) + first);
    const MatrixView<T> next = state_before(index + 1);
    if (next.data == nullptr) continue;
    chain.gather_left(part, head, vectors);
    eigen(next) = eigen(state_before(index));
    gemm<T>(1, u, transposed(vectors), 1, next);
  }
}

/// From chunk to chunk, backward: gradients of the right sides [chunks, H, C, M], and of the state after each
/// chunk [chunks, H, D, M].
template <class T>
struct ChainGradients {
  TensorView<T> d_right_sides, d_states;
};

template <class T>
void advance_backward(const Chain<T>& chain, const RankOneChainGradients<T>& gradients,
                      const ChainGradients<T>& between, Index b, Index head, Index first, Index count) {
  const Index begin = chain.chunks.begin(b), end = chain.chunks.end(b);
  const auto d_state_after = [&](Index index) {
    if (index >= begin) return chain.state(between.d_states, index, head, first, count);
    return gradients.d_initial_states.empty()
               ? MatrixView<T>()
               : chain.state(gradients.d_initial_states, b, head, first, count);
  };
  if (const MatrixView<T> last = d_state_after(end - 1); last.data != nullptr) {
    if (gradients.d_final_states.empty()) {
      eigen(last).setZero();
    } else {
      eigen(last) = eigen(chain.state(gradients.d_final_states, b, head, first, count));
    }
  }
  for (Index index = end; index-- > begin;) {
    const SequenceParts::Part part = chain.chunks[index];
    Slab<T> slab((chain.size + count) * part.tokens);
    const MatrixView<T> vectors = slab.matrix(chain.size, part.tokens),
                        d_updates = slab.matrix(count, part.tokens);
    for (Index r = 0; r < part.tokens; ++r)
      std::copy_n(chain.at(gradients.d_outputs, part, r, head) + first, count, d_updates.column(r));
    chain.gather_left(part, head, vectors);
    gemm<T>(1, d_state_after(index), vectors, 1, d_updates);
    const MatrixView<T> d_right_side =
        matrix_of(between.d_right_sides, index * chain.heads + head, chain.columns, part.tokens)
            .block(first, 0, count, part.tokens);
    gemm<T>(1, d_updates, transposed(chain.inverse(index, head)), 0, d_right_side);
    const MatrixView<T> d_before = d_state_after(index - 1);
    if (d_before.data == nullptr) continue;
    chain.gather_right(part, head, vectors);
    eigen(d_before) = eigen(d_state_after(index));
    gemm<T>(1, d_right_side, transposed(vectors), 1, d_before);
  }
}

template <class T>
void gather_gradients(const Chain<T>& chain, const RankOneChainGradients<T>& gradients,
                      TensorView<T> all_updates, const ChainGradients<T>& between, Index index, Index head) {
  const SequenceParts::Part part = chain.chunks[index];
  const Index steps = part.tokens, place = index * chain.heads + head;
  Slab<T> slab(4 * chain.size * steps + steps * steps);
  const MatrixView<T> left = slab.matrix(chain.size, steps), right = slab.matrix(chain.size, steps),
                      d_left = slab.matrix(chain.size, steps), d_right = slab.matrix(chain.size, steps),
                      d_products = slab.matrix(steps, steps);
  chain.gather_left(part, head, left);
  chain.gather_right(part, head, right);
  const MatrixView<T> updates = matrix_of(all_updates, place, chain.columns, steps),
                      d_right_side = matrix_of(between.d_right_sides, place, chain.columns, steps);
  // Of q_s . k_r for s < r.
  gemm<T>(1, transposed(updates), d_right_side, 0, d_products);
  for (Index r = 0; r < steps; ++r) std::fill(d_products.column(r) + r, d_products.column(r) + steps, T{0});
  gemm<T>(1, right, transposed(d_products), 0, d_left);
  gemm<T>(1, transposed(chain.state(between.d_states, index, head, 0, chain.columns)), updates, 1, d_left);
  gemm<T>(1, left, d_products, 0, d_right);
  gemm<T>(1, transposed(chain.state(chain.states, index, head, 0, chain.columns)), d_right_side, 1, d_right);
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
  check_states(input, layout);
  const Index heads = input.left.shape()[1], columns = input.initial_states.shape()[3];
  check_on_device("rank_one_chain", saved, {{"outputs", outputs}, {"final states", final_states}});
  check_shape("outputs", outputs.shape(), {layout.rows(), heads, columns});
  if (!final_states.empty()) check_shape("final states", final_states.shape(), input.initial_states.shape());
  clear_padding<T>(layout, {outputs});
  if constexpr (has_cuda_bodies) {
    if (saved.device().is_cuda())
      return cuda::rank_one_chain<T>(input, layout, options, outputs, final_states, keep, saved);
  }
  Chain<T> chain(input, layout, options, saved);
  chain.inverses = saved.push<T>(chain.inverses_shape());
  chain.states = saved.push<T>(chain.states_shape());
  const TensorView<T> updates = saved.push<T>(chain.updates_shape());
  chain.chunks.for_each(chain.heads, [&](Index index, Index head) { couple(chain, index, head); });
  for_each_state(layout.size(), chain.heads, chain.columns, block_kernel::row_group<T>,
                 [&](Index b, Index head, Index first, Index count) {
                   advance(chain, updates, outputs, final_states, b, head, first, count);
                 });
}

}  // namespace

template <class T>
void rank_one_chain_forward(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, TensorView<T> outputs,
                            TensorView<T> final_states, Saved& saved) {
  run_forward(input, layout, options, outputs, final_states, true, saved);
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
  check_states(input, layout);
  const Shape states = input.initial_states.shape();
  check_on_device("rank_one_chain", saved,
                  {{"d_outputs", gradients.d_outputs},
                   {"d_final_states", gradients.d_final_states},
                   {"d_left", gradients.d_left},
                   {"d_right", gradients.d_right},
                   {"d_left_scales", gradients.d_left_scales},
                   {"d_right_scales", gradients.d_right_scales},
                   {"d_initial_states", gradients.d_initial_states}});
  check_shape("d_outputs", gradients.d_outputs.shape(), {layout.rows(), states[1], states[3]});
  if (!gradients.d_final_states.empty())
    check_shape("d_final_states", gradients.d_final_states.shape(), states);
  check_shape("d_left", gradients.d_left.shape(), input.left.shape());
  check_shape("d_right", gradients.d_right.shape(), input.right.shape());
  check_shape("d_left_scales", gradients.d_left_scales.shape(), input.left_scales.shape());
  check_shape("d_right_scales", gradients.d_right_scales.shape(), input.right_scales.shape());
  if (!gradients.d_initial_states.empty())
    check_shape("d_initial_states", gradients.d_initial_states.shape(), states);
  clear_padding<T>(layout,
                   {gradients.d_left, gradients.d_right, gradients.d_left_scales, gradients.d_right_scales});
  if constexpr (has_cuda_bodies) {
    if (saved.device().is_cuda())
      return cuda::rank_one_chain_backward<T>(input, layout, options, gradients, saved);
  }

  const TensorView<T> inverses = saved.top<T>(2), kept_states = saved.top<T>(1), updates = saved.top<T>(0);
  {
    const Saved::Scope scope(saved);
    Chain<T> chain(input, layout, options, saved);
    check_shape("inverses that the forward kept", inverses.shape(), chain.inverses_shape());
    check_shape("states that the forward kept", kept_states.shape(), chain.states_shape());
    check_shape("updates that the forward kept", updates.shape(), chain.updates_shape());
    chain.inverses = inverses;
    chain.states = kept_states;
    const ChainGradients<T> between{.d_right_sides = saved.push<T>(updates.shape()),
                                    .d_states = saved.push<T>(kept_states.shape())};
    for_each_state(layout.size(), chain.heads, chain.columns, block_kernel::row_group<T>,
                   [&](Index b, Index head, Index first, Index count) {
                     advance_backward(chain, gradients, between, b, head, first, count);
                   });
    chain.chunks.for_each(chain.heads, [&](Index index, Index head) {
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
  check_on_device("rank_one_chain", scratch, {{"inverses", inverses}});
  check_shape("inverses", inverses.shape(), {layout.size(), heads, size, size});
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

#define ORTHORNN_INSTANTIATE(T)                                                                              \
  template void rank_one_chain<T>(const RankOneChainInput<T>&, const TokenLayout&,                           \
                                  const RankOneChainOptions&, TensorView<T>, TensorView<T>, Saved&);         \
  template void rank_one_chain_forward<T>(const RankOneChainInput<T>&, const TokenLayout&,                   \
                                          const RankOneChainOptions&, TensorView<T>, TensorView<T>, Saved&); \
  template void rank_one_chain_backward<T>(const RankOneChainInput<T>&, const TokenLayout&,                  \
                                           const RankOneChainOptions&, const RankOneChainGradients<T>&,      \
                                           Saved&);                                                          \
  template void rank_one_chain_inverse<T>(const RankOneChainInput<T>&, const TokenLayout&,                   \
                                          const RankOneChainOptions&, TensorView<T>, Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
