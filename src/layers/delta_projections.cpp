#include "layers/delta_projections.hpp"

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "core/thread_scratch.hpp"
#include "layers/sigmoid.hpp"
#include "layers/sum_of.hpp"

namespace orthornn {
namespace {

struct ConvolvedChannels;
struct Sigmas;

/// Some of the channels of a step: vectors of one length, those of queries and keys to be normalised.
struct Part {
  Index first, count, vector;
  bool unit;
};

/// z [count] <- the convolved channels of a part.
template <class T>
void convolve(const DeltaProjections<T>& p, Index row, const Part& part, T* z) {
  if (p.filters == nullptr) {
    std::copy_n(p.of_row(row) + part.first, part.count, z);
    return;
  }
  std::fill_n(z, part.count, T{0});
  for (Index i = 0; i < p.window; ++i) {
    const T* filter = p.filters + i * p.heads.channels() + part.first;
    const T* x = p.of_row(row, p.window - 1 - i) + part.first;
    for (Index c = 0; c < part.count; ++c) z[c] += filter[c] * x[c];
  }
}

/// z <- f(z) of the layer, slopes <- f'(z) unless null. Both [count].
template <class T>
void activate_channels(const DeltaProjections<T>& p, Index count, T* z, T* slopes) {
  if (!p.silu) {
    if (slopes != nullptr) std::fill_n(slopes, count, T{1});
    return;
  }
  T* sigmas = thread_scratch<T, Sigmas>(count);
  std::copy_n(z, count, sigmas);
  apply_sigmoid(sigmas, count);
  for (Index c = 0; c < count; ++c) {
    if (slopes != nullptr) slopes[c] = sigmas[c] * (T{1} + z[c] * (T{1} - sigmas[c]));
    z[c] *= sigmas[c];
  }
}

/// 1 / norm, or 0 for a vector of zeros. In double, so that entries of a unit vector are rounded once.
template <class T>
double unit_scale(const T* x, Index size) {
  const double squares =
      sum_of(size, [&](Index i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
  return squares > 0 ? 1 / std::sqrt(squares) : 0;
}

template <class T>
void read_part(const DeltaProjections<T>& p, Index row, const Part& part, T* to) {
  convolve(p, row, part, to);
  activate_channels<T>(p, part.count, to, nullptr);
  if (!part.unit) return;
  for (T* x = to; x != to + part.count; x += part.vector) {
    const double scale = unit_scale(x, part.vector);
    for (Index i = 0; i < part.vector; ++i) x[i] = static_cast<T>(x[i] * scale);
  }
}

/// d_z [count] from the gradient d of what was read.
template <class T>
void read_part_backward(const DeltaProjections<T>& p, Index row, const Part& part, const T* d, T* d_z) {
  T* vectors = thread_scratch<T, ConvolvedChannels>(2 * part.count + part.vector);
  T* slopes = vectors + part.count;
  T* unit = slopes + part.count;
  convolve(p, row, part, vectors);
  activate_channels(p, part.count, vectors, slopes);
  std::copy_n(d, part.count, d_z);
  for (Index at = 0; part.unit && at < part.count; at += part.vector) {
    for (Index i = 0; i < part.vector; ++i) unit[i] = vectors[at + i];
    const auto scale = static_cast<T>(unit_scale(unit, part.vector));
    for (Index i = 0; i < part.vector; ++i) unit[i] *= scale;
    const auto along = static_cast<T>(sum_of(part.vector, [&](Index i) { return unit[i] * d[at + i]; }));
    for (Index i = 0; i < part.vector; ++i) d_z[at + i] = scale * (d[at + i] - unit[i] * along);
  }
  for (Index c = 0; c < part.count; ++c) d_z[c] *= slopes[c];
}

template <class T>
void read_row(const DeltaProjections<T>& p, Index row, const DeltaVectors<T, T>& to) {
  const DeltaHeads& h = p.heads;
  read_part(p, row, {0, h.queries(), h.key, true}, to.queries.data() + row * h.queries());
  read_part(p, row, {h.first_key(), h.keys(), h.key, true}, to.keys.data() + row * h.keys());
  read_part(p, row, {h.first_value(), h.values(), h.value, false}, to.values.data() + row * h.values());
  const bool live = !p.is_padding(row);
  const ReadGates<T, T> gates{p, to.betas.data(), to.log_decays.data(), nullptr};
  for (Index i = 0; i < h.betas() + h.decays(); ++i) gates.run(i, row, live);
  if (!h.removal) return;
  // Removals are many, so they take the vectors of the processor.
  T* removals = to.removals.data() + row * h.removals();
  if (live) {
    std::copy_n(p.of_row(row) + h.first_removal(), h.removals(), removals);
    apply_sigmoid(removals, h.removals());
  } else {
    std::fill_n(removals, h.removals(), T{0});
  }
}

template <class T>
void read_row_backward(const DeltaProjections<T>& p, Index row, const DeltaVectors<const T, const T>& d,
                       TensorView<T> d_channels, const ReadGatesBackward<T, T>& gates) {
  const DeltaHeads& h = p.heads;
  T* d_z = d_channels.data() + row * d_channels.shape()[-1];
  const bool live = !p.is_padding(row);
  for (Index i = 0; i < h.width() - h.first_beta(); ++i) gates.run(i, row, live);
  if (!live) {
    std::fill_n(d_z, h.channels(), T{0});
    return;
  }
  read_part_backward(p, row, {0, h.queries(), h.key, true}, d.queries.data() + row * h.queries(), d_z);
  read_part_backward(p, row, {h.first_key(), h.keys(), h.key, true}, d.keys.data() + row * h.keys(),
                     d_z + h.first_key());
  read_part_backward(p, row, {h.first_value(), h.values(), h.value, false},
                     d.values.data() + row * h.values(), d_z + h.first_value());
}

/// Calls body(row) for all rows, on all threads.
template <class T, class Body>
void for_each_row(const DeltaProjections<T>& p, const Body& body) {
  parallel_for(p.steps(), row_grain, [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) body(row);
  });
}

}  // namespace

template <class T, class X>
void read_projections(const DeltaProjections<T>& p, const DeltaVectors<T, X>& to) {
  if constexpr (has_cuda_bodies) {
    if (to.queries.device().is_cuda()) return cuda::read_projections<T, X>(p, to);
  }
  // The CPU has no others.
  if constexpr (std::is_same_v<T, X>) for_each_row(p, [&](Index row) { read_row(p, row, to); });
}

template <class T, class X>
void read_projections_backward(const DeltaProjections<T>& p, const DeltaVectors<const T, const X>& read,
                               const DeltaVectors<const T, const X>& d, TensorView<T> d_channels,
                               TensorView<T> d_rows, TensorView<T> d_decay_rates) {
  if constexpr (has_cuda_bodies) {
    if (d_rows.device().is_cuda())
      return cuda::read_projections_backward<T, X>(p, read, d, d_channels, d_rows, d_decay_rates);
  }
  if constexpr (std::is_same_v<T, X>) {
    const ReadGatesBackward<T, T> gates = gates_backward(p, read, d, d_rows, d_decay_rates);
    for_each_row(p, [&](Index row) { read_row_backward(p, row, d, d_channels, gates); });
  }
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

}  // namespace orthornn
