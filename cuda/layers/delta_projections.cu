// A warp takes one query, key or value of a step after the other: its numbers are neighbours in the
// projections and in what is written, and a norm needs no barrier. Convolved numbers are not kept, but
// computed again where they are read again: their inputs are in the first cache then.

#include <algorithm>

#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/delta_projections.hpp"
#include "cuda/layers/gate.cuh"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned vectors_at_once = threads / warp_size;
constexpr Index blocks_per_multiprocessor = 8;

/// log(1 + e^x), without overflow.
template <class T>
__device__ __forceinline__ T softplus(T x) {
  return (x > T{0} ? x : T{0}) + log1p(exp(-abs(x)));
}

/// DeltaProjections for kernels.
template <class T>
struct Projections {
  DeltaHeads heads;
  const T* rows;
  const T* filters;  // or null
  const T* decay_rates;
  const std::int32_t* lengths;  // or null
  bool silu;
  T beta_limit, beta_offset;
  Index window, length, batch;
  Index vectors;  // of a row

  explicit Projections(const DeltaProjections<T>& p)
      : heads(p.heads),
        rows(p.rows.data()),
        filters(p.filters.empty() ? nullptr : p.filters.data()),
        decay_rates(p.decay_rates.data()),
        lengths(p.lengths.empty() ? nullptr : p.lengths.data()),
        silu(p.silu),
        beta_limit(p.beta_limit),
        beta_offset(p.beta_offset),
        window(p.window()),
        length(p.length()),
        batch(p.batch()),
        vectors(p.heads.heads * (1 + (p.heads.writes ? 2 : 1) * p.heads.factors)) {}

  Index steps() const { return length * batch; }

  __device__ bool is_padding(Index row) const {
    return row / batch >= live_steps(lengths, length, row % batch);
  }
  /// z of a channel at step and sequence `row`.
  __device__ T convolved(Index row, Index channel) const {
    const T* x = rows + row * heads.width() + channel;
    if (filters == nullptr) return *x;
    const Index stride = batch * heads.width();
    T sum = 0;
    for (Index i = 0; i < window; ++i) sum += filters[i * heads.channels() + channel] * x[i * stride];
    return sum;
  }
  /// f(z) of a channel: of what is read.
  __device__ T activated(Index row, Index channel) const {
    const T z = convolved(row, channel);
    return silu ? z * sigmoid(z) : z;
  }
  /// f'(z).
  __device__ T slope(Index row, Index channel) const {
    if (!silu) return T{1};
    const T z = convolved(row, channel), sigma = sigmoid(z);
    return sigma * (T{1} + z * (T{1} - sigma));
  }
  /// A projection that is not convolved.
  __device__ T own(Index row, Index place) const {
    return rows[(row + (window - 1) * batch) * heads.width() + place];
  }
};

/// One query, key or value among those of a row.
struct VectorPlace {
  Index first;  // among the channels
  Index size;
  bool unit;

  __device__ VectorPlace(const DeltaHeads& h, Index i) {
    const Index keys = h.heads * (1 + h.factors);
    unit = i < keys;
    size = unit ? h.key : h.value;
    first = unit ? i * h.key : h.first_value() + (i - keys) * h.value;
  }
};

/// The places of a row's channels in queries, keys and values.
template <class X>
struct ChannelPlaces {
  X* queries;
  X* keys;
  X* values;

  __device__ X* at(const DeltaHeads& h, Index row, Index channel) const {
    if (channel < h.first_key()) return queries + row * h.queries() + channel;
    if (channel < h.first_value()) return keys + row * h.keys() + channel - h.first_key();
    return values + row * h.values() + channel - h.first_value();
  }
};

template <class T, class X>
ChannelPlaces<X> places_of(const DeltaVectors<T, X>& v) {
  return {v.queries.data(), v.keys.data(), v.values.data()};
}

/// In the lanes of a warp, 1 / norm of what is read, or 0 for zeros. In double: no square overflows, and
/// entries of a unit vector are rounded once.
__device__ __forceinline__ double unit_scale(double squares) {
  squares = warp_sum(squares);
  return squares > 0 ? 1 / sqrt(squares) : 0.0;
}

template <class T, class X>
__global__ void read_kernel(Projections<T> p, ChannelPlaces<X> to) {
  const Index lane = threadIdx.x % warp_size, stride = static_cast<Index>(gridDim.x) * vectors_at_once;
  const Index count = p.vectors * p.length * p.batch;
  for (Index j = grid_thread() / warp_size; j < count; j += stride) {
    const Index row = j / p.vectors;
    const VectorPlace vector(p.heads, j % p.vectors);
    X* result = to.at(p.heads, row, vector.first);
    double scale = 1;
    if (vector.unit) {
      double squares = 0;
      for (Index i = lane; i < vector.size; i += warp_size) {
        const double s = p.activated(row, vector.first + i);
        squares += s * s;
      }
      scale = unit_scale(squares);
    }
    for (Index i = lane; i < vector.size; i += warp_size) {
      const T s = p.activated(row, vector.first + i);
      result[i] = static_cast<X>(vector.unit ? static_cast<T>(s * scale) : s);
    }
  }
}

/// d_z [.., stride].
template <class T, class X>
__global__ void read_backward_kernel(Projections<T> p, ChannelPlaces<const X> d, T* d_z, Index d_stride) {
  const Index lane = threadIdx.x % warp_size, stride = static_cast<Index>(gridDim.x) * vectors_at_once;
  const Index count = p.vectors * p.length * p.batch;
  for (Index j = grid_thread() / warp_size; j < count; j += stride) {
    const Index row = j / p.vectors;
    const VectorPlace vector(p.heads, j % p.vectors);
    T* result = d_z + row * d_stride + vector.first;
    if (p.is_padding(row)) {
      for (Index i = lane; i < vector.size; i += warp_size) result[i] = T{0};
      continue;
    }
    const X* d_here = d.at(p.heads, row, vector.first);
    T scale = 1, along = 0;
    if (vector.unit) {
      double squares = 0;
      for (Index i = lane; i < vector.size; i += warp_size) {
        const double s = p.activated(row, vector.first + i);
        squares += s * s;
      }
      scale = static_cast<T>(unit_scale(squares));
      for (Index i = lane; i < vector.size; i += warp_size) {
        along += p.activated(row, vector.first + i) * scale * static_cast<T>(d_here[i]);
      }
      along = warp_sum(along);
    }
    for (Index i = lane; i < vector.size; i += warp_size) {
      T gradient = static_cast<T>(d_here[i]);
      if (vector.unit) gradient = scale * (gradient - p.activated(row, vector.first + i) * scale * along);
      result[i] = gradient * p.slope(row, vector.first + i);
    }
  }
}

LaunchShape shape_for(const Context& gpu, Index vectors) {
  const Index most = gpu.multiprocessors() * blocks_per_multiprocessor;
  return {.grid = static_cast<unsigned>(std::min<Index>(blocks_for(vectors, vectors_at_once), most)),
          .block = threads};
}

}  // namespace

template <class T, class X>
void read_projections(const DeltaProjections<T>& projections, const DeltaVectors<T, X>& to) {
  const Context& gpu = context(projections.rows.device());
  const Projections<T> p(projections);
  launch(gpu, read_kernel<T, X>, shape_for(gpu, p.vectors * p.steps()), p, places_of(to));
  const DeltaHeads h = p.heads;
  T* betas = to.betas.data();
  T* decays = to.log_decays.data();
  X* removals = to.removals.data();
  for_each_entry(gpu, h.width() - h.first_beta(), p.steps(), [=] __device__(Index i, Index row) {
    const T x = p.own(row, h.first_beta() + i);
    const bool live = !p.is_padding(row);
    if (i < h.betas()) {
      betas[row * h.betas() + i] = live ? p.beta_limit * sigmoid(x + p.beta_offset) : T{0};
    } else if (i < h.betas() + h.decays()) {
      const Index j = i - h.betas();
      const T decay =
          h.removal ? static_cast<T>(largest_row_decay) * sigmoid(x) : exp(p.decay_rates[j]) * softplus(x);
      decays[row * h.decays() + j] = live ? -decay : T{0};
    } else {
      const Index j = i - h.betas() - h.decays();
      removals[row * h.removals() + j] = static_cast<X>(live ? sigmoid(x) : T{0});
    }
  });
}

template <class T, class X>
void read_projections_backward(const DeltaProjections<T>& projections,
                               const DeltaVectors<const T, const X>& read,
                               const DeltaVectors<const T, const X>& d, TensorView<T> d_channels,
                               TensorView<T> d_rows, TensorView<T> d_decay_rates) {
  const Context& gpu = context(projections.rows.device());
  const Projections<T> p(projections);
  launch(gpu, read_backward_kernel<T, X>, shape_for(gpu, p.vectors * p.steps()), p, places_of(d),
         d_channels.data(), d_channels.shape()[-1]);
  const DeltaHeads h = p.heads;
  const T* betas = read.betas.data();
  const T* decays = read.log_decays.data();
  const T* d_betas = d.betas.data();
  const T* d_decays = d.log_decays.data();
  const X* removals = read.removals.data();
  const X* d_removals = d.removals.data();
  T* result = d_rows.data();
  T* d_rates = d_decay_rates.data();
  for_each_entry(gpu, h.width() - h.first_beta(), p.steps(), [=] __device__(Index i, Index row) {
    const bool live = !p.is_padding(row);
    const Index place = row * h.width() + h.first_beta() + i;
    if (i < h.betas()) {
      const T beta = betas[row * h.betas() + i];
      result[place] = live ? d_betas[row * h.betas() + i] * beta * (T{1} - beta / p.beta_limit) : T{0};
    } else if (i < h.betas() + h.decays()) {
      const Index j = i - h.betas(), at = row * h.decays() + j;
      const T x = p.own(row, h.first_beta() + i);
      const T slope = h.removal ? decays[at] * sigmoid(-x) : -exp(p.decay_rates[j]) * sigmoid(x);
      result[place] = live ? d_decays[at] * slope : T{0};
      if (!h.removal) d_rates[at] = live ? d_decays[at] * decays[at] : T{0};
    } else {
      const Index at = row * h.removals() + i - h.betas() - h.decays();
      const T removal = static_cast<T>(removals[at]);
      result[place] = live ? static_cast<T>(d_removals[at]) * removal * (T{1} - removal) : T{0};
    }
  });
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
