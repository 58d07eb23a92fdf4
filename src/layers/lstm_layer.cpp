#include "orthornn/layers/lstm_layer.hpp"

#include <algorithm>

#include "cells/sequence_columns.hpp"
#include "core/back_end.hpp"
#include "core/fill_on_host.hpp"
#include "core/parallel.hpp"
#include "core/set_zero.hpp"
#include "core/thread_scratch.hpp"
#include "cuda/layers/lstm.hpp"
#include "layers/affine_map.hpp"
#include "layers/last_states.hpp"
#include "layers/recurrent_weights.hpp"
#include "layers/sigmoid.hpp"
#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {
namespace {

/// What a rollout reads and writes, forward and backward.
template <class T>
struct LstmRollout {
  TensorView<const std::int32_t> lengths;
  TensorView<T> h, c;                      ///< [T + 1, B, N], h_0 and c_0 first; backward only reads them
  TensorView<T> gates;                     ///< [T, B, 4N], arguments -> gates; backward: gates -> gradients
  TensorView<T> h_last = {}, c_last = {};  ///< [B, N], or empty; forward
  TensorView<const T> d_h_last = {}, d_c_last = {};  ///< [B, N], or empty; backward
  TensorView<T> d_h = {};                            ///< [T, B, N], gradients that arrive at h_t; backward
  TensorView<T> d_h0 = {};                           ///< [B, N], 0 -> gradient; backward
  TensorView<T> d_c = {};                            ///< [B, N], 0 -> gradient of c_0; backward

  Index length() const { return gates.shape()[0]; }
  Index batch() const { return gates.shape()[1]; }
};

template <class T>
cuda::LstmStep<T> cuda_step(const LstmRollout<T>& r, Index t) {
  const auto at = [](TensorView<T> x, Index i) { return x.empty() ? nullptr : x[i].data(); };
  return {.device = r.h.device(),
          .length = r.length(),
          .step = t,
          .batch = r.batch(),
          .hidden_size = r.h.shape()[2],
          .lengths = r.lengths.empty() ? nullptr : r.lengths.data(),
          .gates = at(r.gates, t),
          .c_before = at(r.c, t),
          .c = at(r.c, t + 1),
          .h = at(r.h, t + 1),
          .h_last = r.h_last.data(),
          .c_last = r.c_last.data(),
          .d_h = at(r.d_h, t),
          .d_h_last = r.d_h_last.data(),
          .d_c_last = r.d_c_last.data(),
          .d_c = r.d_c.data()};
}

/// c_t and h_t of one sequence from its gates' arguments a [4N], which become the gates.
template <class T>
void step_forward(Index n, T* a, const T* c_before, T* c, T* h) {
  apply_sigmoid(a, 2 * n);
  apply_tanh(a + 2 * n, n);
  apply_sigmoid(a + 3 * n, n);
  for (Index k = 0; k < n; ++k) h[k] = c[k] = a[n + k] * c_before[k] + a[k] * a[2 * n + k];
  apply_tanh(h, n);
  for (Index k = 0; k < n; ++k) h[k] *= a[3 * n + k];
}

/// The gates a [4N] of one sequence become the gradients of their arguments, d_c that of c_{t-1}.
template <class T>
void step_backward(Index n, T* a, const T* c_before, const T* c, const T* d_h, T* d_c, T* tanh_c) {
  std::copy(c, c + n, tanh_c);
  apply_tanh(tanh_c, n);
  for (Index k = 0; k < n; ++k) {
    const T i = a[k], f = a[n + k], g = a[2 * n + k], o = a[3 * n + k];
    const T d = d_c[k] + d_h[k] * o * (T{1} - tanh_c[k] * tanh_c[k]);
    a[k] = d * g * i * (T{1} - i);
    a[n + k] = d * c_before[k] * f * (T{1} - f);
    a[2 * n + k] = d * i * (T{1} - g * g);
    a[3 * n + k] = d_h[k] * tanh_c[k] * o * (T{1} - o);
    d_c[k] = d * f;
  }
}

template <class T>
void forward_on_host(const LstmRollout<T>& r, const RecurrentWeights<T>& weights) {
  const Index n = r.h.shape()[2];
  // Threads own whole sequences and carry them through all of T with no synchronisation.
  parallel_for(r.batch(), RecurrentWeights<T>::column_grain, [&](Index first, Index last) {
    const SequenceColumns own(r.lengths, r.length(), first, last);
    for (Index t = 0; t < r.length(); ++t) {
      const MatrixView<T> a = own.of(r.gates[t]), c_before = own.of(r.c[t]), c = own.of(r.c[t + 1]),
                          h = own.of(r.h[t + 1]);
      weights.multiply_add(own.of(r.h[t]), a);
      for (Index j = 0; j < own.count(); ++j) {
        if (t >= own.live_steps(j)) {
          zero_column(h, j);
          zero_column(c, j);
          continue;
        }
        step_forward(n, a.column(j), c_before.column(j), c.column(j), h.column(j));
        if (t + 1 < own.live_steps(j) || r.h_last.empty()) continue;
        std::copy_n(h.column(j), n, own.of(r.h_last).column(j));
        std::copy_n(c.column(j), n, own.of(r.c_last).column(j));
      }
    }
  });
}

struct TanhOfC;

template <class T>
void backward_on_host(const LstmRollout<T>& r, const RecurrentWeights<T>& weights) {
  const Index n = r.h.shape()[2];
  parallel_for(r.batch(), RecurrentWeights<T>::column_grain, [&](Index first, Index last) {
    const SequenceColumns own(r.lengths, r.length(), first, last);
    T* tanh_c = thread_scratch<T, TanhOfC>(n);
    for (Index t = r.length() - 1; t >= 0; --t) {
      const MatrixView<T> a = own.of(r.gates[t]), c_before = own.of(r.c[t]), c = own.of(r.c[t + 1]),
                          d_h = own.of(r.d_h[t]), d_c = own.of(r.d_c);
      for (Index j = 0; j < own.count(); ++j) {
        if (t >= own.live_steps(j)) {
          zero_column(a, j);
          continue;
        }
        if (t + 1 == own.live_steps(j)) {
          if (!r.d_h_last.empty()) add_column<T>(own.of(r.d_h_last).column(j), d_h.column(j), n);
          if (!r.d_c_last.empty()) add_column<T>(own.of(r.d_c_last).column(j), d_c.column(j), n);
        }
        step_backward(n, a.column(j), c_before.column(j), c.column(j), d_h.column(j), d_c.column(j), tanh_c);
      }
      weights.multiply_add_transposed(a, own.of(t > 0 ? r.d_h[t - 1] : r.d_h0));
    }
  });
}

template <class T>
RecordedLoops::Key key_of(const LstmRollout<T>& r, const RecurrentWeights<T>& weights) {
  return {orthornn::key_of(&weights),
          orthornn::key_of(r.lengths.data()),
          orthornn::key_of(r.h.data()),
          orthornn::key_of(r.c.data()),
          orthornn::key_of(r.gates.data()),
          orthornn::key_of(r.h_last.data()),
          orthornn::key_of(r.c_last.data()),
          orthornn::key_of(r.d_h_last.data()),
          orthornn::key_of(r.d_c_last.data()),
          orthornn::key_of(r.d_h.data()),
          orthornn::key_of(r.d_h0.data()),
          orthornn::key_of(r.d_c.data()),
          static_cast<std::uintptr_t>(r.length()),
          static_cast<std::uintptr_t>(r.batch())};
}

template <class T>
void forward_on_gpu(const LstmRollout<T>& r, const RecurrentWeights<T>& weights) {
  for (Index t = 0; t < r.length(); ++t) {
    weights.multiply_add(columns_of(r.h[t]), columns_of(r.gates[t]));
    cuda::lstm_forward_step(cuda_step(r, t));
  }
}

template <class T>
void backward_on_gpu(const LstmRollout<T>& r, const RecurrentWeights<T>& weights) {
  for (Index t = r.length() - 1; t >= 0; --t) {
    cuda::lstm_backward_step(cuda_step(r, t));
    weights.multiply_add_transposed(columns_of(r.gates[t]), columns_of(t > 0 ? r.d_h[t - 1] : r.d_h0));
  }
}

/// `run_steps` records a loop on a GPU, or runs it.
template <class T, class RunSteps>
void lstm_forward(const LstmRollout<T>& r, const RecurrentWeights<T>& weights, const RunSteps& run_steps) {
  if constexpr (has_cuda_bodies) {
    if (r.h.device().is_cuda()) return run_steps(key_of(r, weights), [&] { forward_on_gpu(r, weights); });
  }
  forward_on_host(r, weights);
}

template <class T, class RunSteps>
void lstm_backward(const LstmRollout<T>& r, const RecurrentWeights<T>& weights, const RunSteps& run_steps) {
  if constexpr (has_cuda_bodies) {
    if (r.h.device().is_cuda()) return run_steps(key_of(r, weights), [&] { backward_on_gpu(r, weights); });
  }
  backward_on_host(r, weights);
}

}  // namespace

template <class T>
void LstmLayer<T>::initialize(std::uint64_t seed) {
  GatedLayer<T>::initialize(seed);
  const Index n = this->output_size();
  fill_on_host(this->parameters_.value(this->places_.recurrent_bias).slice(n, n),
               [](TensorView<T> forget) { std::fill(forget.begin(), forget.end(), T{1}); });
}

template <class T>
TensorView<const T> LstmLayer<T>::run_forward(const SequenceInput<T>& input, States<const T> start,
                                              States<T> last, Saved& saved) const {
  const Index length = input.length(), batch = input.batch(), n = this->output_size();
  LstmRollout<T> r{.lengths = input.lengths,
                   .h = saved.push<T>({length + 1, batch, n}),
                   .c = saved.push<T>({length + 1, batch, n}),
                   .gates = saved.push<T>({length, batch, 4 * n})};
  // 1. The first states, which are also the last of a sequence without a step.
  const TensorView<T> first[2] = {r.h[0], r.c[0]};
  for (std::size_t i = 0; i < 2; ++i) {
    start.empty() ? set_zero(first[i]) : copy<T>(start[i], first[i]);
    if (!last.empty()) copy<T>(first[i], last[i]);
  }
  if (!last.empty()) {
    r.h_last = last[0];
    r.c_last = last[1];
  }
  // 2. W x_t + b + b' for all steps.
  const Saved::Scope scope(saved);
  const TensorView<T> bias = saved.push<T>({4 * n});
  copy<T>(this->value(this->places_.input_bias), bias);
  add<T>(columns_of(this->value(this->places_.recurrent_bias)), columns_of(bias));
  this->input_map_->forward(input, this->value(this->places_.input_weights), bias, r.gates, saved);
  // 3. The recurrence.
  lstm_forward(r, *this->recurrent_, this->steps_of(length));
  return r.h.slice(1, length);
}

template <class T>
void LstmLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool,
                                Saved& saved, Saved& scratch) const {
  const Index length = input.length(), batch = input.batch(), n = this->output_size();
  LstmRollout<T> r{.lengths = input.lengths,
                   .h = saved.top<T>(2),
                   .c = saved.top<T>(1),
                   .gates = saved.top<T>(0),
                   .d_h = arguments.d_output};
  // 1. The recurrence: the gates become the gradients of their arguments.
  const bool wants_start = !arguments.d_start.empty();
  r.d_h0 = wants_start ? arguments.d_start[0] : scratch.push<T>({batch, n});
  r.d_c = wants_start ? arguments.d_start[1] : scratch.push<T>({batch, n});
  set_zero(r.d_h0);
  set_zero(r.d_c);
  if (!arguments.d_last.empty()) {
    r.d_h_last = arguments.d_last[0];
    r.d_c_last = arguments.d_last[1];
  }
  lstm_backward(r, *this->recurrent_, this->steps_of(length));
  add_where_empty(input.lengths, r.d_h_last, r.d_h0);
  add_where_empty(input.lengths, r.d_c_last, r.d_c);
  // 2. The parameters, from the gradients of all steps at once.
  const TensorView<const T> g = r.gates, h_before = r.h.slice(0, length);
  gemm<T>(1, columns_of(h_before), transposed(columns_of(g)), 0,
          columns_of(this->gradient(this->places_.recurrent_weights)), this->execution_.precision);
  this->input_map_->backward(input, this->value(this->places_.input_weights), g,
                             {.weights = this->gradient(this->places_.input_weights),
                              .bias = this->gradient(this->places_.input_bias),
                              .input = arguments.d_input,
                              .mode = arguments.input},
                             scratch);
  copy<T>(this->gradient(this->places_.input_bias), this->gradient(this->places_.recurrent_bias));
}

template class LstmLayer<float>;
template class LstmLayer<double>;

}  // namespace orthornn
