#include "delta/recurrent_delta_product.hpp"

#include <Eigen/Core>
#include <cmath>
#include <optional>

#include "core/parallel.hpp"
#include "core/thread_scratch.hpp"
#include "delta/sequence_parts.hpp"
#include "delta/unit_key.hpp"
#include "delta/value_parts.hpp"
#include "linalg/block_kernel.hpp"

namespace orthornn {
namespace {

struct RecurrentState;
struct RecurrentHistory;

template <class T>
using Vector = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>;
template <class T>
using ConstVector = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>;
/// A state [K, V] is V x K in memory, as Eigen sees it.
template <class T>
using State = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>;
/// Some of the values of a state in a tensor.
template <class T>
using StateRows =
    Eigen::Map<std::conditional_t<std::is_const_v<T>, const Eigen::Matrix<std::remove_const_t<T>, -1, -1>,
                                  Eigen::Matrix<T, -1, -1>>,
               Eigen::Unaligned, Eigen::OuterStride<>>;

/// Tokens from one kept state to the next: as many as leave the states within a segment, which the backward
/// holds all at once, in a cache of the second level.
Index segment_tokens(const DeltaSizes& sizes) {
  constexpr Index numbers = 1 << 17;
  const Index token = std::max<Index>(1, (sizes.factors + 1) * sizes.key * sizes.value);
  return std::clamp<Index>(numbers / token, 1, 64);
}

/// Head h of one row of a tensor [R, .., H, D], with micro-step j where there are several.
template <class T>
T* vector_of(TensorView<T> x, Index row, Index micro_step, Index head) {
  const Shape& shape = x.shape();
  const Index place =
      shape.rank() == 4 ? (row * shape[1] + micro_step) * shape[2] + head : row * shape[1] + head;
  return x.data() + place * shape[-1];
}
/// State [K, V] of one sequence, or of one part, and head in a tensor [.., H, K, V].
template <class T>
T* state_of(TensorView<T> x, Index i, Index head) {
  return x.data() + (i * x.shape()[1] + head) * x.shape()[2] * x.shape()[3];
}

/// One head of the inputs, micro-step by micro-step.
template <class T>
class Head {
 public:
  Head(const DeltaProductInput<T>& input, const DeltaProductOptions& options, Index head, T* memory)
      : input_(input),
        sizes_(input),
        unit_keys_(options.unit_keys),
        head_(head),
        key_(memory, sizes_.key),
        removal_(memory + sizes_.key, sizes_.key) {}
  static Index scratch(const DeltaSizes& sizes) { return 2 * sizes.key; }

  /// S <- diag(e^a) S.
  template <class S>
  void decay(Index row, S& state) const {
    const TensorView<const T> a = input_.log_decays;
    if (a.empty()) return;
    if (a.shape().rank() == 2) {
      state *= std::exp(a(row, head_));
    } else {
      for (Index i = 0; i < sizes_.key; ++i) state.col(i) *= std::exp(a(row, head_, i));
    }
  }

  /// Makes `key` and `removal` those of a micro-step.
  void load(Index row, Index micro_step) {
    key_ = ConstVector<T>(vector_of(input_.keys, row, micro_step, head_), sizes_.key);
    norm_factor_ = unit_keys_ ? make_unit(key_) : T{1};
    removal_ = key_;
    if (!input_.removals.empty())
      removal_ =
          key_.cwiseProduct(ConstVector<T>(vector_of(input_.removals, row, micro_step, head_), sizes_.key));
    beta_ = input_.betas(row, micro_step, head_);
    value_ = vector_of(input_.values, row, micro_step, head_);
  }
  const Vector<T>& key() const { return key_; }
  /// k * r.
  const Vector<T>& removal() const { return removal_; }
  T beta() const { return beta_; }
  const T* value() const { return value_; }
  /// What the key was multiplied by to have norm 1.
  T norm_factor() const { return norm_factor_; }

  ConstVector<T> query(Index row) const { return {vector_of(input_.queries, row, 0, head_), sizes_.key}; }

 private:
  const DeltaProductInput<T>& input_;
  DeltaSizes sizes_;
  bool unit_keys_;
  Index head_;
  Vector<T> key_, removal_;
  T beta_ = 0, norm_factor_ = 1;
  const T* value_ = nullptr;
};

/// One head of one sequence, `width` values from `first` on.
template <class T>
void run_head(const DeltaProductInput<T>& input, const TokenLayout& layout,
              const DeltaProductOptions& options, TensorView<T> outputs, TensorView<T> final_states,
              const SequenceParts* segments, TensorView<T> borders, Index b, Index h, Index first,
              Index width) {
  const DeltaSizes sizes(input);
  // Columns are as far apart as in the whole state: Eigen chooses the order of a sum by it.
  const Index size = sizes.key * sizes.value;
  T* scratch = thread_scratch<T, RecurrentState>(size + width + Head<T>::scratch(sizes));
  StateRows<T> state(scratch, width, sizes.key, Eigen::OuterStride<>(sizes.value));
  Vector<T> error(scratch + size, width);
  Head<T> head(input, options, h, scratch + size + width);
  const auto rows = [&](auto tensor, Index i) {
    return StateRows<std::remove_pointer_t<decltype(tensor.data())>>(
        &tensor(i, h, 0, first), width, sizes.key, Eigen::OuterStride<>(sizes.value));
  };
  const TokenLayout::Sequence sequence = layout[b];
  const T scale = static_cast<T>(options.scale);

  if (input.initial_states.empty()) {
    state.setZero();
  } else {
    state = rows(input.initial_states, b);
  }
  for (Index t = 0; t < sequence.count; ++t) {
    const Index row = sequence.row(t);
    if (segments != nullptr && t % segments->part_tokens() == 0)
      rows(borders, segments->begin(b) + t / segments->part_tokens()) = state;
    head.decay(row, state);
    for (Index j = 0; j < sizes.factors; ++j) {
      head.load(row, j);
      error = ConstVector<T>(head.value() + first, width);
      error.noalias() -= state * head.removal();
      error *= head.beta();
      state.noalias() += error * head.key().transpose();
    }
    Vector<T> output(vector_of(outputs, row, 0, h) + first, width);
    output.noalias() = state * head.query(row);
    output *= scale;
  }
  if (!final_states.empty()) rows(final_states, b) = state;
}

/// One head of one sequence, backward.
template <class T>
void run_head_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                       const DeltaProductOptions& options, const DeltaProductGradients<T>& gradients,
                       const SequenceParts& segments, TensorView<const T> borders, Index b, Index h) {
  const DeltaSizes sizes(input);
  const Index size = sizes.key * sizes.value;
  T* scratch =
      thread_scratch<T, RecurrentState>(size + 3 * sizes.value + 2 * sizes.key + Head<T>::scratch(sizes));
  State<T> d_state(scratch, sizes.value, sizes.key);
  scratch += size;
  Vector<T> error(scratch, sizes.value), u(scratch + sizes.value, sizes.value),
      d_error(scratch + 2 * sizes.value, sizes.value);
  scratch += 3 * sizes.value;
  Vector<T> d_key(scratch, sizes.key), d_removal(scratch + sizes.key, sizes.key);
  Head<T> head(input, options, h, scratch + 2 * sizes.key);
  // The state before each micro-step of a segment, and after the last of a token.
  T* memory = thread_scratch<T, RecurrentHistory>(segments.part_tokens() * (sizes.factors + 1) * size);
  const auto before = [&](Index token, Index micro_step) {
    return State<T>(memory + (token * (sizes.factors + 1) + micro_step) * size, sizes.value, sizes.key);
  };
  const auto find_error = [&](const auto& state) {
    error = ConstVector<T>(head.value(), sizes.value);
    error.noalias() -= state * head.removal();
  };
  const T scale = static_cast<T>(options.scale);

  if (gradients.d_final_states.empty()) {
    d_state.setZero();
  } else {
    d_state = Eigen::Map<const Eigen::Matrix<T, -1, -1>>(state_of(gradients.d_final_states, b, h),
                                                         sizes.value, sizes.key);
  }
  for (Index part = segments.end(b); part-- > segments.begin(b);) {
    const auto [_, first_token, tokens] = segments[part];
    const auto row_of = [&, first = first_token](Index t) { return layout[b].row(first + t); };
    // 1. The states of the segment, forward.
    std::copy_n(state_of(borders, part, h), size, before(0, 0).data());
    for (Index t = 0; t < tokens; ++t) {
      if (t > 0) before(t, 0) = before(t - 1, sizes.factors);
      State<T> start = before(t, 0);
      head.decay(row_of(t), start);
      for (Index j = 0; j < sizes.factors; ++j) {
        head.load(row_of(t), j);
        find_error(before(t, j));
        State<T> after = before(t, j + 1);
        after = before(t, j);
        after.noalias() += (head.beta() * error) * head.key().transpose();
      }
    }
    // 2. The gradients, from the last token to the first.
    for (Index t = tokens; t-- > 0;) {
      const Index row = row_of(t);
      const ConstVector<T> d_output(vector_of(gradients.d_outputs, row, 0, h), sizes.value);
      Vector<T> d_query(vector_of(gradients.d_queries, row, 0, h), sizes.key);
      d_query.noalias() = before(t, sizes.factors).transpose() * d_output;
      d_query *= scale;
      d_state.noalias() += (scale * d_output) * head.query(row).transpose();
      for (Index j = sizes.factors; j-- > 0;) {
        head.load(row, j);
        const State<T> state = before(t, j);
        find_error(state);
        u.noalias() = d_state * head.key();
        gradients.d_betas(row, j, h) = u.dot(error);
        d_error = head.beta() * u;
        Vector<T>(vector_of(gradients.d_values, row, j, h), sizes.value) = d_error;
        d_key.noalias() = d_state.transpose() * error;
        d_key *= head.beta();
        d_removal.noalias() = -state.transpose() * d_error;
        if (input.removals.empty()) {
          d_key += d_removal;
        } else {
          const ConstVector<T> removal(vector_of(input.removals, row, j, h), sizes.key);
          d_key += d_removal.cwiseProduct(removal);
          Vector<T>(vector_of(gradients.d_removals, row, j, h), sizes.key) =
              d_removal.cwiseProduct(head.key());
        }
        if (options.unit_keys) {
          d_key -= head.key() * head.key().dot(d_key);
          d_key *= head.norm_factor();
        }
        Vector<T>(vector_of(gradients.d_keys, row, j, h), sizes.key) = d_key;
        d_state.noalias() -= d_error * head.removal().transpose();
      }
      if (!input.log_decays.empty()) {
        const State<T> decayed = before(t, 0);
        const bool of_rows = input.log_decays.shape().rank() == 3;
        T sum = 0;
        for (Index i = 0; i < sizes.key; ++i) {
          const T d = d_state.col(i).dot(decayed.col(i));
          sum += d;
          if (of_rows) gradients.d_log_decays(row, h, i) = d;
        }
        if (!of_rows) gradients.d_log_decays(row, h) = sum;
        head.decay(row, d_state);
      }
    }
  }
  if (!gradients.d_initial_states.empty())
    std::copy_n(d_state.data(), size, state_of(gradients.d_initial_states, b, h));
}

}  // namespace

template <class T>
void recurrent_delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                             const DeltaProductOptions& options, TensorView<T> outputs,
                             TensorView<T> final_states, bool keep, Saved& saved) {
  const DeltaSizes sizes(input);
  std::optional<SequenceParts> segments;
  TensorView<T> borders;
  if (keep) {
    segments.emplace(layout, segment_tokens(sizes), saved);
    borders = saved.push<T>({segments->size(), sizes.heads, sizes.key, sizes.value});
  }
  for_each_state(layout.size(), sizes.heads, sizes.value, block_kernel::row_group<T>,
                 [&](Index b, Index head, Index first, Index count) {
                   run_head(input, layout, options, outputs, final_states, segments ? &*segments : nullptr,
                            borders, b, head, first, count);
                 });
}

template <class T>
void recurrent_delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                                      const DeltaProductOptions& options,
                                      const DeltaProductGradients<T>& gradients, Saved& saved) {
  const DeltaSizes sizes(input);
  const TensorView<const T> borders = saved.top<T>(0);
  {
    const Saved::Scope scope(saved);
    const SequenceParts segments(layout, segment_tokens(sizes), saved);
    check_shape("states that the forward kept", borders.shape(),
                {segments.size(), sizes.heads, sizes.key, sizes.value});
    parallel_for(layout.size() * sizes.heads, 1, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i)
        run_head_backward(input, layout, options, gradients, segments, borders, i / sizes.heads,
                          i % sizes.heads);
    });
  }
  saved.pop(2);
}

#define ORTHORNN_INSTANTIATE(T)                                                                            \
  template void recurrent_delta_product<T>(const DeltaProductInput<T>&, const TokenLayout&,                \
                                           const DeltaProductOptions&, TensorView<T>, TensorView<T>, bool, \
                                           Saved&);                                                        \
  template void recurrent_delta_product_backward<T>(const DeltaProductInput<T>&, const TokenLayout&,       \
                                                    const DeltaProductOptions&,                            \
                                                    const DeltaProductGradients<T>&, Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
