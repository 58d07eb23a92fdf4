// A warp takes one head of a step after the other, so a mean needs no barrier.

#include <algorithm>

#include "cuda/core/launch.hpp"
#include "cuda/layers/delta_outputs.hpp"
#include "cuda/layers/gate.cuh"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned heads_at_once = threads / warp_size;
constexpr Index blocks_per_multiprocessor = 8;

/// DeltaReadout for kernels.
template <class T>
struct Readout {
  DeltaHeads heads;
  const T* rows;
  const T* gain;                // or null
  const std::int32_t* lengths;  // or null
  T epsilon;
  Index length, batch;

  explicit Readout(const DeltaReadout<T>& r)
      : heads(r.heads),
        rows(r.rows.data()),
        gain(r.gain.empty() ? nullptr : r.gain.data()),
        lengths(r.lengths.empty() ? nullptr : r.lengths.data()),
        epsilon(r.epsilon),
        length(r.rows.shape()[0]),
        batch(r.rows.shape()[1]) {}

  /// Heads of all steps.
  Index count() const { return length * batch * heads.heads; }
  __device__ bool is_padding(Index head) const {
    const Index row = head / heads.heads;
    return row / batch >= live_steps(lengths, length, row % batch);
  }
  /// Where the gates of a head are in its row.
  __device__ Index gate_place(Index head) const {
    return head / heads.heads * heads.width() + heads.first_gate() + head % heads.heads * heads.value;
  }
  /// The same in all lanes: 1 / sqrt(mean(o^2) + epsilon), or 1 without a norm.
  template <class X>
  __device__ T scale_of(const X* o) const {
    if (gain == nullptr) return T{1};
    T squares = 0;
    for (Index i = threadIdx.x % warp_size; i < heads.value; i += warp_size)
      squares += static_cast<T>(o[i]) * static_cast<T>(o[i]);
    return T{1} / sqrt(warp_sum(squares) / static_cast<T>(heads.value) + epsilon);
  }
};

template <class T, class X>
__global__ void write_kernel(Readout<T> r, Index count, const X* o, T* y) {
  const Index stride = static_cast<Index>(gridDim.x) * heads_at_once;
  for (Index head = grid_thread() / warp_size; head < count; head += stride) {
    const X* from = o + head * r.heads.value;
    T* result = y + head * r.heads.value;
    const bool padding = r.is_padding(head);
    const T scale = r.scale_of(from);
    for (Index i = threadIdx.x % warp_size; i < r.heads.value; i += warp_size) {
      T x = static_cast<T>(from[i]);
      if (r.gain != nullptr) x = r.gain[i] * (x * scale);
      if (r.heads.gate) {
        const T g = r.rows[r.gate_place(head) + i];
        x *= g * sigmoid(g);
      }
      result[i] = padding ? T{0} : x;
    }
  }
}

template <class T, class X>
__global__ void write_backward_kernel(Readout<T> r, Index count, const X* o, T* d_y, X* d_o, T* d_rows) {
  const Index stride = static_cast<Index>(gridDim.x) * heads_at_once, lane = threadIdx.x % warp_size;
  for (Index head = grid_thread() / warp_size; head < count; head += stride) {
    const Index at = head * r.heads.value, gate_at = r.gate_place(head);
    const bool padding = r.is_padding(head);
    const T scale = r.scale_of(o + at);
    const auto d_ungated = [&](Index i) {
      if (!r.heads.gate) return d_y[at + i];
      const T g = r.rows[gate_at + i];
      return d_y[at + i] * (g * sigmoid(g));
    };
    T mean = 0;
    if (r.gain != nullptr) {
      for (Index i = lane; i < r.heads.value; i += warp_size)
        mean += r.gain[i] * d_ungated(i) * (static_cast<T>(o[at + i]) * scale);
      mean = warp_sum(mean) / static_cast<T>(r.heads.value);
    }
    for (Index i = lane; i < r.heads.value; i += warp_size) {
      const T d = d_ungated(i), unit = static_cast<T>(o[at + i]) * scale;
      const T gain = r.gain == nullptr ? T{1} : r.gain[i];
      if (r.heads.gate) {
        const T g = r.rows[gate_at + i], sigma = sigmoid(g);
        d_rows[gate_at + i] =
            padding ? T{0} : d_y[at + i] * (gain * unit) * sigma * (T{1} + g * (T{1} - sigma));
      }
      const T gradient = r.gain == nullptr ? d : scale * (gain * d - unit * mean);
      d_o[at + i] = static_cast<X>(padding ? T{0} : gradient);
      d_y[at + i] = padding ? T{0} : d * unit;
    }
  }
}

LaunchShape shape_for(const Context& gpu, Index count) {
  const Index most = gpu.multiprocessors() * blocks_per_multiprocessor;
  return {.grid = static_cast<unsigned>(std::min<Index>(blocks_for(count, heads_at_once), most)),
          .block = threads};
}

}  // namespace

template <class T, class X>
void write_outputs(const DeltaReadout<T>& readout, TensorView<const X> o, TensorView<T> y) {
  const Context& gpu = context(y.device());
  const Readout<T> r(readout);
  launch(gpu, write_kernel<T, X>, shape_for(gpu, r.count()), r, r.count(), o.data(), y.data());
}

template <class T, class X>
void write_outputs_backward(const DeltaReadout<T>& readout, TensorView<const X> o, TensorView<T> d_y,
                            TensorView<X> d_o, TensorView<T> d_rows) {
  const Context& gpu = context(d_y.device());
  const Readout<T> r(readout);
  launch(gpu, write_backward_kernel<T, X>, shape_for(gpu, r.count()), r, r.count(), o.data(), d_y.data(),
         d_o.data(), d_rows.data());
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
