// Several heads at a time in a warp (short_vectors.cuh).

#include "cuda/layers/delta_outputs.hpp"
#include "cuda/layers/short_vectors.cuh"
#include "pointwise/numbers.hpp"

namespace orthornn::cuda {
namespace {

/// The gain from number i on, or ones.
template <int count, class T>
__device__ __forceinline__ Pack<T, count> gains(const DeltaReadout<T>& r, Index i) {
  if (r.gain != nullptr) return load_pack<count>(r.gain + i);
  Pack<T, count> ones;
#pragma unroll
  for (T& x : ones.of) x = T{1};
  return ones;
}

template <int count, class T, class X>
__global__ void write_kernel(DeltaReadout<T> r, VectorGroup group, const X* o, T* y) {
  const Index first = threadIdx.x % group.lanes * count, pass = group.lanes * count;
  for (VectorWalk at(group, r.steps()); at.rounds > 0; at.advance()) {
    const Index place = (at.row * group.vectors + at.vector) * group.size,
                end = at.row < r.steps() ? group.size : 0;
    Pack<X, count> from;
    T scale = 1;
    if (r.gain != nullptr) {
      T squares = 0;
      for (Index i = first; i < end; i += pass) {
        from = load_pack<count>(o + place + i);
#pragma unroll
        for (const X x : from.of) squares += static_cast<T>(x) * static_cast<T>(x);
      }
      scale = T{1} /
              sqrt(sum_over_lanes(squares, static_cast<unsigned>(group.lanes)) / static_cast<T>(group.size) +
                   r.epsilon);
    }
    const bool padding = end > 0 && r.is_padding(at.row);
    for (Index i = first; i < end; i += pass) {
      if (r.gain == nullptr || end > pass) from = load_pack<count>(o + place + i);
      const Pack<T, count> gain = gains<count>(r, i);
      Pack<T, count> out, gate;
      if (r.heads.gate) gate = load_pack<count>(r.rows + r.gate_place(at.row, at.vector) + i);
#pragma unroll
      for (int e = 0; e < count; ++e) {
        T x = gain.of[e] * (static_cast<T>(from.of[e]) * scale);
        if (r.heads.gate) x *= gate.of[e] * pointwise::sigmoid(gate.of[e]);
        out.of[e] = padding ? T{0} : x;
      }
      store_pack(out, y + place + i);
    }
  }
}

template <int count, class T, class X>
__global__ void write_backward_kernel(DeltaReadout<T> r, VectorGroup group, const X* o, T* d_y, X* d_o,
                                      T* d_rows) {
  const Index first = threadIdx.x % group.lanes * count, pass = group.lanes * count;
  for (VectorWalk at(group, r.steps()); at.rounds > 0; at.advance()) {
    const Index place = (at.row * group.vectors + at.vector) * group.size,
                gates = r.gate_place(at.row, at.vector), end = at.row < r.steps() ? group.size : 0;
    Pack<X, count> from;
    Pack<T, count> d, gain, gate;
    // d becomes the gradient of what the gate multiplies.
    Pack<T, count> d_gated;
    const auto read = [&](Index i) {
      from = load_pack<count>(o + place + i);
      d_gated = d = load_pack<count>(d_y + place + i);
      gain = gains<count>(r, i);
      if (!r.heads.gate) return;
      gate = load_pack<count>(r.rows + gates + i);
#pragma unroll
      for (int e = 0; e < count; ++e) d.of[e] *= gate.of[e] * pointwise::sigmoid(gate.of[e]);
    };
    T scale = 1, mean = 0;
    if (r.gain != nullptr) {
      T squares = 0, products = 0;
      for (Index i = first; i < end; i += pass) {
        read(i);
#pragma unroll
        for (int e = 0; e < count; ++e) {
          const T x = static_cast<T>(from.of[e]);
          squares += x * x;
          products += gain.of[e] * d.of[e] * x;
        }
      }
      const T size = static_cast<T>(group.size);
      scale = T{1} / sqrt(sum_over_lanes(squares, static_cast<unsigned>(group.lanes)) / size + r.epsilon);
      mean = sum_over_lanes(products, static_cast<unsigned>(group.lanes)) * scale / size;
    }
    const bool padding = end > 0 && r.is_padding(at.row);
    for (Index i = first; i < end; i += pass) {
      if (r.gain == nullptr || end > pass) read(i);
      Pack<T, count> of_gate, of_gain;
      Pack<X, count> of_output;
#pragma unroll
      for (int e = 0; e < count; ++e) {
        const T unit = static_cast<T>(from.of[e]) * scale;
        if (r.heads.gate) {
          const T g = gate.of[e], sigma = pointwise::sigmoid(g);
          of_gate.of[e] =
              padding ? T{0} : d_gated.of[e] * (gain.of[e] * unit) * sigma * (T{1} + g * (T{1} - sigma));
        }
        const T gradient = scale * (gain.of[e] * d.of[e] - unit * mean);
        of_output.of[e] = static_cast<X>(padding ? T{0} : gradient);
        of_gain.of[e] = padding ? T{0} : d.of[e] * unit;
      }
      if (r.heads.gate) store_pack(of_gate, d_rows + gates + i);
      store_pack(of_output, d_o + place + i);
      store_pack(of_gain, d_y + place + i);
    }
  }
}

/// Calls body(count, group, shape) for the heads of all steps.
template <class T, class Body, class... U>
void with_heads(const Context& gpu, const DeltaReadout<T>& r, const Body& body, const U*... tensors) {
  const DeltaHeads h = r.heads;
  const bool aligned =
      is_aligned_for<4>(r.gain) && is_aligned_for<4>(r.rows) && (is_aligned_for<4>(tensors) && ...);
  const auto fits = [&](Index count) {
    return aligned && (!h.gate || (h.width() % count == 0 && h.first_gate() % count == 0));
  };
  with_packs(gpu, r.steps(), {.first = 0, .vectors = h.heads, .size = h.value}, fits, body);
}

}  // namespace

template <class T, class X>
void write_outputs(const DeltaReadout<T>& r, TensorView<const X> o, TensorView<T> y) {
  const Context& gpu = context(y.device());
  with_heads(
      gpu, r,
      [&](auto count, const VectorGroup& group, const LaunchShape& shape) {
        launch(gpu, write_kernel<count, T, X>, shape, r, group, o.data(), y.data());
      },
      o.data(), y.data());
}

template <class T, class X>
void write_outputs_backward(const DeltaReadout<T>& r, TensorView<const X> o, TensorView<T> d_y,
                            TensorView<X> d_o, TensorView<T> d_rows) {
  const Context& gpu = context(d_y.device());
  with_heads(
      gpu, r,
      [&](auto count, const VectorGroup& group, const LaunchShape& shape) {
        launch(gpu, write_backward_kernel<count, T, X>, shape, r, group, o.data(), d_y.data(), d_o.data(),
               d_rows.data());
      },
      o.data(), d_y.data(), d_o.data(), d_rows.data());
}

#define ORTHORNN_INSTANTIATE(T, X)                                                                       \
  template void write_outputs<T, X>(const DeltaReadout<T>&, TensorView<const X>, TensorView<T>);         \
  template void write_outputs_backward<T, X>(const DeltaReadout<T>&, TensorView<const X>, TensorView<T>, \
                                             TensorView<X>, TensorView<T>);
ORTHORNN_INSTANTIATE(float, float)
ORTHORNN_INSTANTIATE(double, double)
ORTHORNN_INSTANTIATE(float, bfloat16)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
