#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/gate.cuh"
#include "cuda/layers/lstm.hpp"

namespace orthornn::cuda {

template <class T>
void lstm_forward_step(const LstmStep<T>& step) {
  const LstmStep<T> s = step;
  for_each_entry(context(s.device), s.hidden_size, s.batch, [=] __device__(Index n, Index b) {
    const Index size = s.hidden_size, at = b * size + n;
    T* gate = s.gates + 4 * b * size + n;
    const T i = sigmoid(gate[0]), f = sigmoid(gate[size]), g = tanh(gate[2 * size]),
            o = sigmoid(gate[3 * size]);
    gate[0] = i;
    gate[size] = f;
    gate[2 * size] = g;
    gate[3 * size] = o;
    const Index live = live_steps(s.lengths, s.length, b);
    const bool padding = s.step >= live;
    const T c = padding ? T{0} : f * s.c_before[at] + i * g;
    const T h = padding ? T{0} : o * tanh(c);
    s.c[at] = c;
    s.h[at] = h;
    if (s.h_last != nullptr && s.step + 1 == live) {
      s.h_last[at] = h;
      s.c_last[at] = c;
    }
  });
}

template <class T>
void lstm_backward_step(const LstmStep<T>& step) {
  const LstmStep<T> s = step;
  for_each_entry(context(s.device), s.hidden_size, s.batch, [=] __device__(Index n, Index b) {
    const Index size = s.hidden_size, at = b * size + n;
    T* gate = s.gates + 4 * b * size + n;
    const Index live = live_steps(s.lengths, s.length, b);
    if (s.step >= live) {
      for (Index k = 0; k < 4; ++k) gate[k * size] = T{0};
      return;
    }
    T d_h = s.d_h[at], d_c = s.d_c[at];
    if (s.step + 1 == live) {
      if (s.d_h_last != nullptr) d_h += s.d_h_last[at];
      if (s.d_c_last != nullptr) d_c += s.d_c_last[at];
    }
    const T i = gate[0], f = gate[size], g = gate[2 * size], o = gate[3 * size];
    const T tanh_c = tanh(s.c[at]);
    d_c += d_h * o * (T{1} - tanh_c * tanh_c);
    gate[0] = d_c * g * i * (T{1} - i);
    gate[size] = d_c * s.c_before[at] * f * (T{1} - f);
    gate[2 * size] = d_c * i * (T{1} - g * g);
    gate[3 * size] = d_h * tanh_c * o * (T{1} - o);
    s.d_c[at] = d_c * f;
  });
}

#define ORTHORNN_INSTANTIATE(T)                           \
  template void lstm_forward_step<T>(const LstmStep<T>&); \
  template void lstm_backward_step<T>(const LstmStep<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
