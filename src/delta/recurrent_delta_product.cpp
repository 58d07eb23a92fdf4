#include "delta/recurrent_delta_product.hpp"

#include <Eigen/Core>
#include <cmath>
#include <optional>

#include "core/thread_scratch.hpp"
#include "delta/sequence_parts.hpp"
#include "delta/unit_key.hpp"
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

/// Shape of the states that are kept.
Shape borders_shape(const SequenceParts& segments, const DeltaSizes& sizes) {
  return {segments.size(), sizes.heads, sizes.key, sizes.value};
}

/// Head h of one row of a tensor [R, .., H, D], with factor j where there are several.
template <class T>
T* vector_of(TensorView<T> x, Index row, Index factor, Index head) {
  const Shape& shape = x.shape();
  const Index place = shape.rank() == 4 ? (row * shape[1] + factor) * shape[2] + head : row * shape[1] + head;
  return x.data() + place * shape[-1];
}
/// State [K, V] of one sequence, or of one part, and head in a tensor [.., H, K, V].
template <class T>
T* state_of(TensorView<T> x, Index i, Index head) {
  return x.data() + (i * x.shape()[1] + head) * x.shape()[2] * x.shape()[3];
}

/// One head of the inputs, factor by factor.
template <class T>
class Head {
 public:
  Head(const DeltaWork<T>& work, Index head, T* memory)
      : work_(work),
        head_(head),
        key_(memory, work.sizes.key),
        removal_(memory + work.sizes.key, work.sizes.key) {}
  static Index scratch(const DeltaSizes& sizes) { return 2 * sizes.key; }

  /// S <- diag(e^a) S.
  template <class S>
  void decay(Index row, S& state) const {
    const TensorView<const T> a = work_.input.log_decays;
    if (a.empty()) return;
    if (a.shape().rank() == 2) {
      state *= std::exp(a(row, head_));
    } else {
      for (Index i = 0; i < work_.sizes.key; ++i) state.col(i) *= std::exp(a(row, head_, i));
    }
  }

  /// Makes `key` and `removal` those of a factor.
  void load(Index row, Index factor) {
    const DeltaProductInput<T>& input = work_.input;
    const Index size = work_.sizes.key;
    key_ = ConstVector<T>(vector_of(input.keys, row, factor, head_), size);
    norm_factor_ = work_.options.unit_keys ? make_unit(key_) : T{1};
    removal_ = key_;
    if (!input.removals.empty())
      removal_ = key_.cwiseProduct(ConstVector<T>(vector_of(input.removals, row, factor, head_), size));
    beta_ = input.betas(row, factor, head_);
    value_ = vector_of(input.values, row, factor, head_);
  }
  const Vector<T>& key() const { return key_; }
  /// k * r.
  const Vector<T>& removal() const { return removal_; }
  T beta() const { return beta_; }
  const T* value() const { return value_; }
  /// What the key was multiplied by to have norm 1.
  T norm_factor() const { return norm_factor_; }

  ConstVector<T> query(Index row) const {
    return {vector_of(work_.input.queries, row, 0, head_), work_.sizes.key};
  }

 private:
  const DeltaWork<T>& work_;
  Index head_;
  Vector<T> key_, removal_;
  T beta_ = 0, norm_factor_ = 1;
  const T* value_ = nullptr;
};

/// Some values of one head of one sequence. The states before `segments` go to `borders`, where there are
/// any.
template <class T>
void run_head(const DeltaWork<T>& work, const DeltaResults<T>& results, const SequenceParts* segments,
              TensorView<T> borders, Index b, const ValueRange& values) {
  const auto [h, first, width] = values;
  const DeltaSizes& sizes = work.sizes;
  // Columns are as far apart as in the whole state: Eigen chooses the order of a sum by it.
  const Index size = sizes.key * sizes.value;
  T* scratch = thread_scratch<T, RecurrentState>(size + width + Head<T>::scratch(sizes));
  StateRows<T> state(scratch, width, sizes.key, Eigen::OuterStride<>(sizes.value));
  Vector<T> error(scratch + size, width);
  Head<T> head(work, h, scratch + size + width);
  const auto rows = [&](auto tensor, Index i) {
    return StateRows<std::remove_pointer_t<decltype(tensor.data())>>(
        &tensor(i, values.head, 0, values.first), values.count, sizes.key, Eigen::OuterStride<>(sizes.value));
  };
  const TokenLayout::Sequence sequence = work.layout[b];
  const T scale = static_cast<T>(work.options.scale);

  if (work.input.initial_states.empty()) {
    state.setZero();
  } else {
    state = rows(work.input.initial_states, b);
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
    Vector<T> output(vector_of(results.outputs, row, 0, h) + first, width);
    output.noalias() = state * head.query(row);
    output *= scale;
  }
  if (!results.final_states.empty()) rows(results.final_states, b) = state;
}

/// One head of one sequence, backward.
template <class T>
struct HeadBackward {
  const DeltaWork<T>& work;
  const DeltaProductGradients<T>& gradients;
  Index b, h;
  /// Memory for `scratch` numbers, and for a state before each factor of a segment and after the last of a
  /// token.
  T *memory, *history;

  const TokenLayout::Sequence& sequence = work.layout[b];
  Index key = work.sizes.key, value = work.sizes.value, factors = work.sizes.factors;
  T scale = static_cast<T>(work.options.scale);
  State<T> d_state{memory, value, key};
  Vector<T> error{memory + key * value, value}, u{error.data() + value, value},
      d_error{u.data() + value, value};
  Vector<T> d_key{d_error.data() + value, key}, d_removal{d_key.data() + key, key};
  Head<T> head{work, h, d_removal.data() + key};

  static Index scratch(const DeltaSizes& sizes) {
    return sizes.key * sizes.value + 3 * sizes.value + 2 * sizes.key + Head<T>::scratch(sizes);
  }

  void run(const SequenceParts& segments, TensorView<const T> borders) {
    if (gradients.d_final_states.empty()) {
      d_state.setZero();
    } else {
      d_state =
          Eigen::Map<const Eigen::Matrix<T, -1, -1>>(state_of(gradients.d_final_states, b, h), value, key);
    }
    for (Index part = segments.end(b); part-- > segments.begin(b);) {
      std::copy_n(state_of(borders, part, h), key * value, before(0, 0).data());
      const SequenceParts::Part segment = segments[part];
      compute_states(segment);
      for (Index t = segment.tokens; t-- > 0;) pass_token(t, sequence.row(segment.first_token + t));
    }
    if (!gradients.d_initial_states.empty())
      std::copy_n(d_state.data(), key * value, state_of(gradients.d_initial_states, b, h));
  }

  State<T> before(Index token, Index factor) const {
    return State<T>(history + (token * (factors + 1) + factor) * key * value, value, key);
  }
  void find_error(const State<T>& state) {
    error = ConstVector<T>(head.value(), value);
    error.noalias() -= state * head.removal();
  }

  /// 1. The states of a segment, forward from the first.
  void compute_states(const SequenceParts::Part& segment) {
    for (Index t = 0; t < segment.tokens; ++t) {
      const Index row = sequence.row(segment.first_token + t);
      if (t > 0) before(t, 0) = before(t - 1, factors);
      State<T> start = before(t, 0);
      head.decay(row, start);
      for (Index j = 0; j < factors; ++j) {
        head.load(row, j);
        find_error(before(t, j));
        State<T> after = before(t, j + 1);
        after = before(t, j);
        after.noalias() += (head.beta() * error) * head.key().transpose();
      }
    }
  }

  /// 2. The gradients of a token, number t of the segment.
  void pass_token(Index t, Index row) {
    const ConstVector<T> d_output(vector_of(gradients.d_outputs, row, 0, h), value);
    Vector<T> d_query(vector_of(gradients.d_queries, row, 0, h), key);
    d_query.noalias() = before(t, factors).transpose() * d_output;
    d_query *= scale;
    d_state.noalias() += (scale * d_output) * head.query(row).transpose();
    for (Index j = factors; j-- > 0;) pass_factor(before(t, j), row, j);
    if (!work.input.log_decays.empty()) pass_decay(before(t, 0), row);
  }

  /// `state` is that before the factor.
  void pass_factor(const State<T>& state, Index row, Index j) {
    head.load(row, j);
    find_error(state);
    u.noalias() = d_state * head.key();
    gradients.d_betas(row, j, h) = u.dot(error);
    d_error = head.beta() * u;
    Vector<T>(vector_of(gradients.d_values, row, j, h), value) = d_error;
    d_key.noalias() = d_state.transpose() * error;
    d_key *= head.beta();
    d_removal.noalias() = -state.transpose() * d_error;
    if (work.input.removals.empty()) {
      d_key += d_removal;
    } else {
      const ConstVector<T> removal(vector_of(work.input.removals, row, j, h), key);
      d_key += d_removal.cwiseProduct(removal);
      Vector<T>(vector_of(gradients.d_removals, row, j, h), key) = d_removal.cwiseProduct(head.key());
    }
    if (work.options.unit_keys) {
      d_key -= head.key() * head.key().dot(d_key);
      d_key *= head.norm_factor();
    }
    Vector<T>(vector_of(gradients.d_keys, row, j, h), key) = d_key;
    d_state.noalias() -= d_error * head.removal().transpose();
  }

  /// `decayed` is the state after the decay.
  void pass_decay(const State<T>& decayed, Index row) {
    const bool of_rows = work.input.log_decays.shape().rank() == 3;
    T sum = 0;
    for (Index i = 0; i < key; ++i) {
      const T d = d_state.col(i).dot(decayed.col(i));
      sum += d;
      if (of_rows) gradients.d_log_decays(row, h, i) = d;
    }
    if (!of_rows) gradients.d_log_decays(row, h) = sum;
    head.decay(row, d_state);
  }
};

}  // namespace

template <class T>
void recurrent_delta_product(const DeltaWork<T>& work, const DeltaResults<T>& results) {
  const DeltaSizes& sizes = work.sizes;
  Saved& saved = work.saved;
  std::optional<SequenceParts> segments;
  TensorView<T> borders;
  if (results.keep) {
    segments.emplace(work.layout, segment_tokens(sizes), saved);
    borders = saved.push<T>(borders_shape(*segments, sizes));
  }
  for_each_state(work.layout.size(), sizes.heads, sizes.value, block_kernel::row_group<T>,
                 [&](Index b, const ValueRange& values) {
                   run_head(work, results, segments ? &*segments : nullptr, borders, b, values);
                 });
}

template <class T>
void recurrent_delta_product_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients) {
  const DeltaSizes& sizes = work.sizes;
  Saved& saved = work.saved;
  const TensorView<const T> borders = saved.top<T>(0);
  {
    const Saved::Scope scope(saved);
    const SequenceParts segments(work.layout, segment_tokens(sizes), saved);
    check_shape("states that the forward kept", borders.shape(), borders_shape(segments, sizes));
    const Index states = segments.part_tokens() * (sizes.factors + 1);
    for_each_head(work.layout.size(), sizes.heads, [&](Index b, Index h) {
      T* memory = thread_scratch<T, RecurrentState>(HeadBackward<T>::scratch(sizes));
      T* history = thread_scratch<T, RecurrentHistory>(states * sizes.key * sizes.value);
      HeadBackward<T>{work, gradients, b, h, memory, history}.run(segments, borders);
    });
  }
  saved.pop(2);
}

template <class T>
SavedMemory memory_of_recurrence(const DeltaWork<T>& work) {
  const Saved::Scope scope(work.saved);
  const SequenceParts segments(work.layout, segment_tokens(work.sizes), work.saved);
  const std::size_t table = SequenceParts::bytes(work.layout),
                    borders = Saved::bytes_of(borders_shape(segments, work.sizes), sizeof(T));
  return {.kept = table + borders, .keeping = 0, .forward = 0, .backward = table};
}

template <class T>
void push_kept_states(const DeltaWork<T>& work) {
  Saved& saved = work.saved;
  const SequenceParts segments(work.layout, segment_tokens(work.sizes), saved);
  saved.push<T>(borders_shape(segments, work.sizes));
}

#define ORTHORNN_INSTANTIATE(T)                                                          \
  template SavedMemory memory_of_recurrence<T>(const DeltaWork<T>&);                     \
  template void push_kept_states<T>(const DeltaWork<T>&);                                \
  template void recurrent_delta_product<T>(const DeltaWork<T>&, const DeltaResults<T>&); \
  template void recurrent_delta_product_backward<T>(const DeltaWork<T>&, const DeltaProductGradients<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
