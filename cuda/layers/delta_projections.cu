// The vectors of the projections, several at a time in a warp (short_vectors.cuh), and their step sizes,
// decays and removals. Convolved numbers are not kept, but computed again where they are read again.

#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/delta_projections.hpp"
#include "cuda/layers/short_vectors.cuh"
#include "pointwise/numbers.hpp"

namespace orthornn::cuda {
namespace {

/// z of channels from `channel` on in a row.
template <int count, class T>
__device__ __forceinline__ Pack<T, count> convolved(const DeltaProjections<T>& p, Index row, Index channel) {
  const T* x = p.rows + row * p.heads.width() + channel;
  if (p.filters == nullptr) return load_pack<count>(x);
  const Index stride = p.batch * p.heads.width();
  Pack<T, count> sum{};
  for (Index i = 0; i < p.window; ++i) {
    const auto filter = load_pack<count>(p.filters + i * p.heads.channels() + channel),
               z = load_pack<count>(x + i * stride);
#pragma unroll
    for (int e = 0; e < count; ++e) sum.of[e] += filter.of[e] * z.of[e];
  }
  return sum;
}
/// f(z).
template <class T>
__device__ __forceinline__ T activated(const DeltaProjections<T>& p, T z) {
  return p.silu ? z * pointwise::sigmoid(z) : z;
}
/// f'(z).
template <class T>
__device__ __forceinline__ T slope(const DeltaProjections<T>& p, T z) {
  if (!p.silu) return T{1};
  const T sigma = pointwise::sigmoid(z);
  return sigma * (T{1} + z * (T{1} - sigma));
}

/// 1 / norm of a vector with this sum of squares, or 0 for zeros. In double: no square overflows, and entries
/// of a unit vector are rounded once.
__device__ __forceinline__ double unit_scale(double squares) { return squares > 0 ? 1 / sqrt(squares) : 0.0; }

/// to [R, vectors, size] <- f(z), with norm 1 if `unit`.
template <int count, bool unit, class T, class X>
__global__ void read_kernel(DeltaProjections<T> p, VectorGroup group, X* to) {
  const Index first = threadIdx.x % group.lanes * count, pass = group.lanes * count;
  for (VectorWalk at(group, p.steps()); at.rounds > 0; at.advance()) {
    const Index channel = group.first + at.vector * group.size, end = at.row < p.steps() ? group.size : 0;
    Pack<T, count> s;
    const auto read = [&](Index i) {
      s = convolved<count>(p, at.row, channel + i);
#pragma unroll
      for (T& x : s.of) x = activated(p, x);
    };
    double scale = 1;
    if constexpr (unit) {
      double squares = 0;
      for (Index i = first; i < end; i += pass) {
        read(i);
#pragma unroll
        for (const T x : s.of) squares += static_cast<double>(x) * x;
      }
      scale = unit_scale(sum_over_lanes(squares, static_cast<unsigned>(group.lanes)));
    }
    X* const result = to + (at.row * group.vectors + at.vector) * group.size;
    for (Index i = first; i < end; i += pass) {
      if (!unit || end > pass) read(i);
      Pack<X, count> out;
#pragma unroll
      for (int e = 0; e < count; ++e)
        out.of[e] = static_cast<X>(unit ? static_cast<T>(s.of[e] * scale) : s.of[e]);
      store_pack(out, result + i);
    }
  }
}

/// d_z [R, d_stride], from d [R, vectors, size].
template <int count, bool unit, class T, class X>
__global__ void read_backward_kernel(DeltaProjections<T> p, VectorGroup group, const X* d, T* d_z,
                                     Index d_stride) {
  const Index first = threadIdx.x % group.lanes * count, pass = group.lanes * count;
  for (VectorWalk at(group, p.steps()); at.rounds > 0; at.advance()) {
    const Index channel = group.first + at.vector * group.size, end = at.row < p.steps() ? group.size : 0;
    const X* const d_here = d + (at.row * group.vectors + at.vector) * group.size;
    Pack<T, count> z;
    Pack<X, count> d_s;
    const auto read = [&](Index i) {
      z = convolved<count>(p, at.row, channel + i);
      d_s = load_pack<count>(d_here + i);
    };
    T scale = 1, along = 0;
    if constexpr (unit) {
      double squares = 0, products = 0;
      for (Index i = first; i < end; i += pass) {
        read(i);
#pragma unroll
        for (int e = 0; e < count; ++e) {
          const double s = activated(p, z.of[e]);
          squares += s * s;
          products += s * static_cast<double>(static_cast<T>(d_s.of[e]));
        }
      }
      const double exact = unit_scale(sum_over_lanes(squares, static_cast<unsigned>(group.lanes)));
      scale = static_cast<T>(exact);
      along = static_cast<T>(sum_over_lanes(products, static_cast<unsigned>(group.lanes)) * exact);
    }
    const bool padding = end > 0 && p.is_padding(at.row);
    T* const result = d_z + at.row * d_stride + channel;
    for (Index i = first; i < end; i += pass) {
      if (!unit || end > pass) read(i);
      Pack<T, count> out;
#pragma unroll
      for (int e = 0; e < count; ++e) {
        T gradient = static_cast<T>(d_s.of[e]);
        if constexpr (unit) gradient = scale * (gradient - activated(p, z.of[e]) * scale * along);
        out.of[e] = padding ? T{0} : gradient * slope(p, z.of[e]);
      }
      store_pack(out, result + i);
    }
  }
}

/// What says whether packs are aligned in the projections and in tensors whose rows are vectors, channels or
/// projections.
template <class T, class... U>
auto packs_in(const DeltaProjections<T>& p, const U*... tensors) {
  const bool aligned =
      is_aligned_for<4>(p.rows) && is_aligned_for<4>(p.filters) && (is_aligned_for<4>(tensors) && ...);
  return [aligned, h = p.heads](Index count) {
    return aligned && h.width() % count == 0 && h.channels() % count == 0;
  };
}

/// Calls body(unit, group, tensor) for queries, keys and values.
template <class X, class Body>
void for_each_group(const DeltaHeads& h, X* queries, X* keys, X* values, const Body& body) {
  body(std::true_type(), VectorGroup{.first = 0, .vectors = h.heads, .size = h.key}, queries);
  body(std::true_type(), VectorGroup{.first = h.first_key(), .vectors = h.heads * h.factors, .size = h.key},
       keys);
  if (h.writes)
    body(std::false_type(),
         VectorGroup{.first = h.first_value(), .vectors = h.heads * h.factors, .size = h.value}, values);
}

}  // namespace

template <class T, class X>
void read_projections(const DeltaProjections<T>& p, const DeltaVectors<T, X>& to) {
  const Context& gpu = context(to.queries.device());
  const DeltaHeads& h = p.heads;
  for_each_group(h, to.queries.data(), to.keys.data(), to.values.data(),
                 [&](auto unit, const VectorGroup& vectors, X* result) {
                   with_packs(gpu, p.steps(), vectors, packs_in(p, result),
                              [&](auto count, const VectorGroup& group, const LaunchShape& shape) {
                                launch(gpu, read_kernel<count, unit, T, X>, shape, p, group, result);
                              });
                 });
  for_each_entry(gpu, h.width() - h.first_beta(), p.steps(),
                 ReadGates<T, X>{p, to.betas.data(), to.log_decays.data(), to.removals.data()});
}

template <class T, class X>
void read_projections_backward(const DeltaProjections<T>& p, const DeltaVectors<const T, const X>& read,
                               const DeltaVectors<const T, const X>& d, TensorView<T> d_channels,
                               TensorView<T> d_rows, TensorView<T> d_decay_rates) {
  const Context& gpu = context(d_rows.device());
  const DeltaHeads& h = p.heads;
  T* const d_z = d_channels.data();
  const Index d_stride = d_channels.shape()[-1];
  for_each_group(h, d.queries.data(), d.keys.data(), d.values.data(),
                 [&](auto unit, const VectorGroup& vectors, const X* d_vectors) {
                   with_packs(gpu, p.steps(), vectors, packs_in(p, d_vectors, d_z),
                              [&](auto count, const VectorGroup& group, const LaunchShape& shape) {
                                launch(gpu, read_backward_kernel<count, unit, T, X>, shape, p, group,
                                       d_vectors, d_z, d_stride);
                              });
                 });
  for_each_entry(gpu, h.width() - h.first_beta(), p.steps(),
                 gates_backward(p, read, d, d_rows, d_decay_rates));
}

#define ORTHORNN_INSTANTIATE(T, X)                                                             \
  template void read_projections<T, X>(const DeltaProjections<T>&, const DeltaVectors<T, X>&); \
  template void read_projections_backward<T, X>(                                               \
      const DeltaProjections<T>&, const DeltaVectors<const T, const X>&,                       \
      const DeltaVectors<const T, const X>&, TensorView<T>, TensorView<T>, TensorView<T>);
ORTHORNN_INSTANTIATE(float, float)
ORTHORNN_INSTANTIATE(double, double)
ORTHORNN_INSTANTIATE(float, bfloat16)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
