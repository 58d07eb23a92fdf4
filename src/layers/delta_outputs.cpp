#include "layers/delta_outputs.hpp"

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "core/thread_scratch.hpp"
#include "layers/sigmoid.hpp"
#include "layers/sum_of.hpp"

namespace orthornn {
namespace {

struct GateSigmas;

/// Calls body(row, head) for each head of each row.
template <class T, class Body>
void for_each_read_out(const DeltaReadout<T>& r, const Body& body) {
  parallel_for(r.steps(), row_grain, [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      for (Index head = 0; head < r.heads.heads; ++head) body(row, head);
    }
  });
}

/// 1 / sqrt(mean(o^2) + epsilon), or 1 without a norm.
template <class T>
T scale_of(const DeltaReadout<T>& r, const T* o) {
  if (r.gain == nullptr) return T{1};
  const double squares = sum_of(r.heads.value, [&](Index i) { return o[i] * o[i]; });
  return static_cast<T>(
      1 / std::sqrt(squares / static_cast<double>(r.heads.value) + static_cast<double>(r.epsilon)));
}

/// sigma of a head's gate.
template <class T>
const T* gate_sigmas(const T* gate, Index size) {
  T* sigmas = thread_scratch<T, GateSigmas>(size);
  std::copy_n(gate, size, sigmas);
  apply_sigmoid(sigmas, size);
  return sigmas;
}

template <class T>
void write_on_host(const DeltaReadout<T>& r, TensorView<const T> o, TensorView<T> y) {
  const Index size = r.heads.value;
  for_each_read_out(r, [&](Index row, Index head) {
    T* result = y.data() + r.place(row, head);
    if (r.is_padding(row)) {
      std::fill_n(result, size, T{0});
      return;
    }
    const T* from = o.data() + r.place(row, head);
    const T scale = scale_of(r, from);
    for (Index i = 0; i < size; ++i) result[i] = r.gain == nullptr ? from[i] : r.gain[i] * (from[i] * scale);
    if (!r.heads.gate) return;
    const T* gate = r.rows + r.gate_place(row, head);
    const T* sigmas = gate_sigmas(gate, size);
    for (Index i = 0; i < size; ++i) result[i] *= gate[i] * sigmas[i];
  });
}

template <class T>
void write_backward_on_host(const DeltaReadout<T>& r, TensorView<const T> o, TensorView<T> d_y,
                            TensorView<T> d_o, TensorView<T> d_rows) {
  const Index size = r.heads.value;
  const bool has_norm = r.gain != nullptr;
  for_each_read_out(r, [&](Index row, Index head) {
    T* d = d_y.data() + r.place(row, head);
    T* result = d_o.data() + r.place(row, head);
    T* d_gate = d_rows.data() + r.gate_place(row, head);
    if (r.is_padding(row)) {
      std::fill_n(d, size, T{0});
      std::fill_n(result, size, T{0});
      if (r.heads.gate) std::fill_n(d_gate, size, T{0});
      return;
    }
    // 1. d becomes the gradient of what is gated, u = gain scale o.
    const T* from = o.data() + r.place(row, head);
    const T scale = scale_of(r, from);
    if (r.heads.gate) {
      const T* gate = r.rows + r.gate_place(row, head);
      const T* sigmas = gate_sigmas(gate, size);
      for (Index i = 0; i < size; ++i) {
        const T u = has_norm ? r.gain[i] * (from[i] * scale) : from[i];
        d_gate[i] = d[i] * u * sigmas[i] * (T{1} + gate[i] * (T{1} - sigmas[i]));
        d[i] *= gate[i] * sigmas[i];
      }
    }
    // 2. As in RmsNormLayer.
    if (!has_norm) {
      std::copy_n(d, size, result);
      return;
    }
    const double product = sum_of(size, [&](Index i) { return r.gain[i] * d[i] * (from[i] * scale); });
    const auto mean = static_cast<T>(product / static_cast<double>(size));
    for (Index i = 0; i < size; ++i) {
      result[i] = scale * (r.gain[i] * d[i] - from[i] * scale * mean);
      d[i] *= from[i] * scale;
    }
  });
}

}  // namespace

template <class T, class X>
void write_outputs(const DeltaReadout<T>& r, TensorView<const X> o, TensorView<T> y) {
  if constexpr (has_cuda_bodies) {
    if (y.device().is_cuda()) return cuda::write_outputs<T, X>(r, o, y);
  }
  if constexpr (std::is_same_v<T, X>) write_on_host(r, o, y);  // the CPU has no others
}

template <class T, class X>
void write_outputs_backward(const DeltaReadout<T>& r, TensorView<const X> o, TensorView<T> d_y,
                            TensorView<X> d_o, TensorView<T> d_rows) {
  if constexpr (has_cuda_bodies) {
    if (d_y.device().is_cuda()) return cuda::write_outputs_backward<T, X>(r, o, d_y, d_o, d_rows);
  }
  if constexpr (std::is_same_v<T, X>) write_backward_on_host(r, o, d_y, d_o, d_rows);
}

#define ORTHORNN_INSTANTIATE(T, X)                                                                       \
  template void write_outputs<T, X>(const DeltaReadout<T>&, TensorView<const X>, TensorView<T>);         \
  template void write_outputs_backward<T, X>(const DeltaReadout<T>&, TensorView<const X>, TensorView<T>, \
                                             TensorView<X>, TensorView<T>);
ORTHORNN_INSTANTIATE(float, float)
ORTHORNN_INSTANTIATE(double, double)
ORTHORNN_INSTANTIATE(float, bfloat16)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
