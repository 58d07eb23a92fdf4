#include "orthornn/layers/gru_layer.hpp"

#include <algorithm>

#include "cells/sequence_columns.hpp"
#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "core/set_zero.hpp"
#include "cuda/layers/gru.hpp"
#include "layers/affine_map.hpp"
#include "layers/copy_to_rows.hpp"
#include "layers/last_states.hpp"
#include "layers/recurrent_weights.hpp"
#include "layers/sigmoid.hpp"

namespace orthornn {
namespace {

/// What a rollout reads and writes, forward and backward.
template <class T>
struct GruRollout {
  TensorView<const std::int32_t> lengths;
  TensorView<T> h;            ///< [T + 1, B, N], h_0 first; backward only reads it
  TensorView<T> gates;        ///< [T, B, 3N], W x + b -> gates; backward: gates -> gradients of W x + b
  TensorView<T> products;     ///< [T, B, 3N], b' -> R h + b'; backward: -> their gradients
  TensorView<T> h_last = {};  ///< [B, N], or empty; forward
  TensorView<const T> d_h_last = {};  ///< [B, N], or empty; backward
  TensorView<T> d_h = {};             ///< [T, B, N], gradients that arrive at h_t; backward
  TensorView<T> d_h0 = {};            ///< [B, N], 0 -> gradient; backward

  Index length() const { return gates.shape()[0]; }
  Index batch() const { return gates.shape()[1]; }
  /// Where the gradient of h_{t-1} is summed.
  TensorView<T> d_h_before(Index t) const { return t > 0 ? d_h[t - 1] : d_h0; }
};

template <class T>
cuda::GruStep<T> cuda_step(const GruRollout<T>& r, Index t) {
  const bool backward = !r.d_h.empty();
  return {.device = r.h.device(),
          .length = r.length(),
          .step = t,
          .batch = r.batch(),
          .hidden_size = r.h.shape()[2],
          .lengths = r.lengths.empty() ? nullptr : r.lengths.data(),
          .gates = r.gates[t].data(),
          .products = r.products[t].data(),
          .h_before = r.h[t].data(),
          .h = r.h[t + 1].data(),
          .h_last = r.h_last.data(),
          .d_h = backward ? r.d_h[t].data() : nullptr,
          .d_h_last = r.d_h_last.data(),
          .d_h_before = backward ? r.d_h_before(t).data() : nullptr};
}

/// h_t of one sequence from a [3N], W x + b, which becomes the gates, and p [3N], R h_{t-1} + b'.
template <class T>
void step_forward(Index n, T* a, const T* p, const T* h_before, T* h) {
  for (Index k = 0; k < 2 * n; ++k) a[k] += p[k];
  apply_sigmoid(a, 2 * n);
  T* candidate = a + 2 * n;
  for (Index k = 0; k < n; ++k) candidate[k] += a[k] * p[2 * n + k];
  apply_tanh(candidate, n);
  for (Index k = 0; k < n; ++k) h[k] = candidate[k] + a[n + k] * (h_before[k] - candidate[k]);
}

/// The gates a [3N] of one sequence become the gradients of W x + b, p [3N] those of R h_{t-1} + b'. What
/// reaches h_{t-1} past the product is added.
template <class T>
void step_backward(Index size, T* a, T* p, const T* h_before, const T* d_h, T* d_h_before) {
  for (Index k = 0; k < size; ++k) {
    const T r = a[k], z = a[size + k], n = a[2 * size + k];
    const T d_n = d_h[k] * (T{1} - z) * (T{1} - n * n);
    const T d_r = d_n * p[2 * size + k] * r * (T{1} - r);
    const T d_z = d_h[k] * (h_before[k] - n) * z * (T{1} - z);
    a[k] = p[k] = d_r;
    a[size + k] = p[size + k] = d_z;
    a[2 * size + k] = d_n;
    p[2 * size + k] = d_n * r;
    d_h_before[k] += d_h[k] * z;
  }
}

template <class T>
void forward_on_host(const GruRollout<T>& r, const RecurrentWeights<T>& weights) {
  const Index n = r.h.shape()[2];
  // Threads own whole sequences and carry them through all of T with no synchronisation.
  parallel_for(r.batch(), RecurrentWeights<T>::column_grain, [&](Index first, Index last) {
    const SequenceColumns own(r.lengths, r.length(), first, last);
    for (Index t = 0; t < r.length(); ++t) {
      const MatrixView<T> a = own.of(r.gates[t]), p = own.of(r.products[t]), h_before = own.of(r.h[t]),
                          h = own.of(r.h[t + 1]);
      weights.multiply_add(h_before, p);
      for (Index j = 0; j < own.count(); ++j) {
        if (t >= own.live_steps(j)) {
          zero_column(h, j);
          continue;
        }
        step_forward(n, a.column(j), p.column(j), h_before.column(j), h.column(j));
        if (t + 1 == own.live_steps(j) && !r.h_last.empty())
          std::copy_n(h.column(j), n, own.of(r.h_last).column(j));
      }
    }
  });
}

template <class T>
void backward_on_host(const GruRollout<T>& r, const RecurrentWeights<T>& weights) {
  const Index n = r.h.shape()[2];
  parallel_for(r.batch(), RecurrentWeights<T>::column_grain, [&](Index first, Index last) {
    const SequenceColumns own(r.lengths, r.length(), first, last);
    for (Index t = r.length() - 1; t >= 0; --t) {
      const MatrixView<T> a = own.of(r.gates[t]), p = own.of(r.products[t]), h_before = own.of(r.h[t]),
                          d_h = own.of(r.d_h[t]), d_h_before = own.of(r.d_h_before(t));
      for (Index j = 0; j < own.count(); ++j) {
        if (t >= own.live_steps(j)) {
          zero_column(a, j);
          zero_column(p, j);
          continue;
        }
        if (t + 1 == own.live_steps(j) && !r.d_h_last.empty())
          add_column<T>(own.of(r.d_h_last).column(j), d_h.column(j), n);
        step_backward(n, a.column(j), p.column(j), h_before.column(j), d_h.column(j), d_h_before.column(j));
      }
      weights.multiply_add_transposed(p, d_h_before);
    }
  });
}

template <class T>
RecordedLoops::Key key_of(const GruRollout<T>& r, const RecurrentWeights<T>& weights) {
  return {orthornn::key_of(&weights),
          orthornn::key_of(r.lengths.data()),
          orthornn::key_of(r.h.data()),
          orthornn::key_of(r.gates.data()),
          orthornn::key_of(r.products.data()),
          orthornn::key_of(r.h_last.data()),
          orthornn::key_of(r.d_h_last.data()),
          orthornn::key_of(r.d_h.data()),
          orthornn::key_of(r.d_h0.data()),
          static_cast<std::uintptr_t>(r.length()),
          static_cast<std::uintptr_t>(r.batch())};
}

template <class T>
void forward_on_gpu(const GruRollout<T>& r, const RecurrentWeights<T>& weights) {
  for (Index t = 0; t < r.length(); ++t) {
    weights.multiply_add(columns_of(r.h[t]), columns_of(r.products[t]));
    cuda::gru_forward_step(cuda_step(r, t));
  }
}

template <class T>
void backward_on_gpu(const GruRollout<T>& r, const RecurrentWeights<T>& weights) {
  for (Index t = r.length() - 1; t >= 0; --t) {
    cuda::gru_backward_step(cuda_step(r, t));
    weights.multiply_add_transposed(columns_of(r.products[t]), columns_of(r.d_h_before(t)));
  }
}

/// `run_steps` records a loop on a GPU, or runs it.
template <class T, class RunSteps>
void gru_forward(const GruRollout<T>& r, const RecurrentWeights<T>& weights, const RunSteps& run_steps) {
  if constexpr (has_cuda_bodies) {
    if (r.h.device().is_cuda()) return run_steps(key_of(r, weights), [&] { forward_on_gpu(r, weights); });
  }
  forward_on_host(r, weights);
}

template <class T, class RunSteps>
void gru_backward(const GruRollout<T>& r, const RecurrentWeights<T>& weights, const RunSteps& run_steps) {
  if constexpr (has_cuda_bodies) {
    if (r.h.device().is_cuda()) return run_steps(key_of(r, weights), [&] { backward_on_gpu(r, weights); });
  }
  backward_on_host(r, weights);
}

}  // namespace

template <class T>
TensorView<const T> GruLayer<T>::run_forward(const SequenceInput<T>& input, States<const T> start,
                                             States<T> last, Saved& saved) const {
  const Index length = input.length(), batch = input.batch(), n = this->output_size();
  GruRollout<T> r{.lengths = input.lengths,
                  .h = saved.push<T>({length + 1, batch, n}),
                  .gates = saved.push<T>({length, batch, 3 * n}),
                  .products = saved.push<T>({length, batch, 3 * n})};
  // 1. The first state, which is also the last of a sequence without a step.
  start.empty() ? set_zero(r.h[0]) : copy<T>(start[0], r.h[0]);
  if (!last.empty()) {
    r.h_last = last[0];
    copy<T>(r.h[0], r.h_last);
  }
  // 2. W x_t + b for all steps, and b'.
  this->input_map_->forward(input, this->value(this->places_.input_weights),
                            this->value(this->places_.input_bias), r.gates, saved);
  copy_to_rows<T>(this->value(this->places_.recurrent_bias), r.products);
  // 3. The recurrence.
  gru_forward(r, *this->recurrent_, this->steps_of(length));
  return r.h.slice(1, length);
}

template <class T>
void GruLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool,
                               Saved& saved, Saved& scratch) const {
  const Index length = input.length(), batch = input.batch(), n = this->output_size();
  GruRollout<T> r{.lengths = input.lengths,
                  .h = saved.top<T>(2),
                  .gates = saved.top<T>(1),
                  .products = saved.top<T>(0),
                  .d_h = arguments.d_output};
  // 1. The recurrence: gates and products become their gradients.
  r.d_h0 = arguments.d_start.empty() ? scratch.push<T>({batch, n}) : arguments.d_start[0];
  set_zero(r.d_h0);
  if (!arguments.d_last.empty()) r.d_h_last = arguments.d_last[0];
  gru_backward(r, *this->recurrent_, this->steps_of(length));
  add_where_empty(input.lengths, r.d_h_last, r.d_h0);
  // 2. The parameters, from the gradients of all steps at once.
  AffineMap<T>(n, 3 * n, this->execution_)
      .backward({.vectors = r.h.slice(0, length)}, this->value(this->places_.recurrent_weights), r.products,
                {.weights = this->gradient(this->places_.recurrent_weights),
                 .bias = this->gradient(this->places_.recurrent_bias)},
                scratch);
  this->input_map_->backward(input, this->value(this->places_.input_weights), r.gates,
                             {.weights = this->gradient(this->places_.input_weights),
                              .bias = this->gradient(this->places_.input_bias),
                              .input = arguments.d_input,
                              .mode = arguments.input},
                             scratch);
}

template class GruLayer<float>;
template class GruLayer<double>;

}  // namespace orthornn
