#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/gate.cuh"
#include "cuda/layers/gru.hpp"

namespace orthornn::cuda {

template <class T>
void gru_forward_step(const GruStep<T>& step) {
  const GruStep<T> s = step;
  for_each_entry(context(s.device), s.hidden_size, s.batch, [=] __device__(Index i, Index b) {
    const Index size = s.hidden_size, at = b * size + i;
    T* gate = s.gates + 3 * b * size + i;
    const T* product = s.products + 3 * b * size + i;
    const T r = sigmoid(gate[0] + product[0]), z = sigmoid(gate[size] + product[size]);
    const T n = tanh(gate[2 * size] + r * product[2 * size]);
    gate[0] = r;
    gate[size] = z;
    gate[2 * size] = n;
    const Index live = live_steps(s.lengths, s.length, b);
    const T h = s.step >= live ? T{0} : n + z * (s.h_before[at] - n);
    s.h[at] = h;
    if (s.h_last != nullptr && s.step + 1 == live) s.h_last[at] = h;
  });
}

template <class T>
void gru_backward_step(const GruStep<T>& step) {
  const GruStep<T> s = step;
  for_each_entry(context(s.device), s.hidden_size, s.batch, [=] __device__(Index i, Index b) {
    const Index size = s.hidden_size, at = b * size + i;
    T* gate = s.gates + 3 * b * size + i;
    T* product = s.products + 3 * b * size + i;
    const Index live = live_steps(s.lengths, s.length, b);
    if (s.step >= live) {
      for (Index k = 0; k < 3; ++k) gate[k * size] = product[k * size] = T{0};
      return;
    }
    T d_h = s.d_h[at];
    if (s.step + 1 == live && s.d_h_last != nullptr) d_h += s.d_h_last[at];
    const T r = gate[0], z = gate[size], n = gate[2 * size];
    const T d_n = d_h * (T{1} - z) * (T{1} - n * n);
    const T d_z = d_h * (s.h_before[at] - n) * z * (T{1} - z);
    const T d_r = d_n * product[2 * size] * r * (T{1} - r);
    gate[0] = product[0] = d_r;
    gate[size] = product[size] = d_z;
    gate[2 * size] = d_n;
    product[2 * size] = d_n * r;
    s.d_h_before[at] += d_h * z;
  });
}

#define ORTHORNN_INSTANTIATE(T)                         \
  template void gru_forward_step<T>(const GruStep<T>&); \
  template void gru_backward_step<T>(const GruStep<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
