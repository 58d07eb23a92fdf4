#include "layers/delta_projections.hpp"

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "core/thread_scratch.hpp"
#include "layers/row_grain.hpp"
#include "layers/sigmoid.hpp"
#include "layers/sum_of.hpp"

namespace orthornn {
namespace {

struct ConvolvedChannels;
struct Sigmas;

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

/// log(1 + e^x), without overflow.
template <class T>
T softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

/// Some of the channels of a step: vectors of one length, those of queries and keys to be normalised.
struct Part {
  Index first, count, vector;
  bool unit;
};

template <class T>
class Row {
 public:
  Row(const DeltaProjections<T>& p, Index row)
      : p_(p),
        step_(row / p.batch()),
        sequence_(row % p.batch()),
        own_(projections(step_ + p.window() - 1)) {}

  bool is_padding() const { return !p_.lengths.empty() && step_ >= p_.lengths(sequence_); }
  /// Of which a step size is sigma times the limit.
  T beta(Index i) const { return own_[p_.heads.first_beta() + i] + p_.beta_offset; }
  T decay(Index i) const { return own_[p_.heads.first_decay() + i]; }
  const T* removals() const { return own_ + p_.heads.first_removal(); }
  T decay_rate(Index head) const { return std::exp(p_.decay_rates(head)); }

  /// z [count] <- the convolved channels of a part.
  void convolve(const Part& part, T* z) const {
    if (p_.filters.empty()) {
      std::copy_n(own_ + part.first, part.count, z);
    } else {
      std::fill_n(z, part.count, T{0});
      for (Index i = 0; i < p_.window(); ++i) {
        const T* filter = p_.filters[i].data() + part.first;
        const T* x = projections(step_ + i) + part.first;
        for (Index c = 0; c < part.count; ++c) z[c] += filter[c] * x[c];
      }
    }
  }

  /// z <- f(z) of the layer, slopes <- f'(z) unless null. Both [count].
  void activate(Index count, T* z, T* slopes) const {
    if (!p_.silu) {
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

 private:
  const T* projections(Index row) const {
    return p_.rows.data() + (row * p_.batch() + sequence_) * p_.heads.width();
  }

  const DeltaProjections<T>& p_;
  Index step_, sequence_;
  /// The projections of the step itself.
  const T* own_;
};

/// 1 / norm, or 0 for a vector of zeros. In double, so that entries of a unit vector are rounded once.
template <class T>
double unit_scale(const T* x, Index size) {
  const double squares =
      sum_of(size, [&](Index i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
  return squares > 0 ? 1 / std::sqrt(squares) : 0;
}

template <class T>
void read_part(const Row<T>& row, const Part& part, T* to) {
  row.convolve(part, to);
  row.activate(part.count, to, nullptr);
  if (!part.unit) return;
  for (T* x = to; x != to + part.count; x += part.vector) {
    const double scale = unit_scale(x, part.vector);
    for (Index i = 0; i < part.vector; ++i) x[i] = static_cast<T>(x[i] * scale);
  }
}

/// d_z [count] from the gradient d of what was read.
template <class T>
void read_part_backward(const Row<T>& row, const Part& part, const T* d, T* d_z) {
  T* vectors = thread_scratch<T, ConvolvedChannels>(2 * part.count + part.vector);
  T* slopes = vectors + part.count;
  T* unit = slopes + part.count;
  row.convolve(part, vectors);
  row.activate(part.count, vectors, slopes);
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
void read_row(const DeltaProjections<T>& p, Index r, const DeltaVectors<T, T>& to) {
  const DeltaHeads& h = p.heads;
  const Row<T> row(p, r);
  read_part(row, {0, h.queries(), h.key, true}, to.queries.data() + r * h.queries());
  read_part(row, {h.first_key(), h.keys(), h.key, true}, to.keys.data() + r * h.keys());
  read_part(row, {h.first_value(), h.values(), h.value, false}, to.values.data() + r * h.values());
  const bool live = !row.is_padding();
  for (Index i = 0; i < h.betas(); ++i)
    to.betas.data()[r * h.betas() + i] = live ? p.beta_limit * sigmoid(row.beta(i)) : T{0};
  for (Index i = 0; i < h.decays(); ++i) {
    const T decay = h.removal ? static_cast<T>(largest_row_decay) * sigmoid(row.decay(i))
                              : row.decay_rate(i) * softplus(row.decay(i));
    to.log_decays.data()[r * h.decays() + i] = live ? -decay : T{0};
  }
  if (!h.removal) return;
  T* removals = to.removals.data() + r * h.removals();
  if (live) {
    std::copy_n(row.removals(), h.removals(), removals);
    apply_sigmoid(removals, h.removals());
  } else {
    std::fill_n(removals, h.removals(), T{0});
  }
}

template <class T>
void read_row_backward(const DeltaProjections<T>& p, Index r, const DeltaVectors<const T, const T>& read,
                       const DeltaVectors<const T, const T>& d, TensorView<T> d_channels,
                       TensorView<T> d_rows, TensorView<T> d_decay_rates) {
  const DeltaHeads& h = p.heads;
  const Row<T> row(p, r);
  T* d_z = d_channels.data() + r * d_channels.shape()[-1];
  T* d_row = d_rows.data() + r * h.width();
  const bool has_rates = !d_decay_rates.empty();
  T* d_rate = has_rates ? d_decay_rates.data() + r * h.heads : nullptr;
  if (row.is_padding()) {
    std::fill_n(d_z, h.channels(), T{0});
    std::fill_n(d_row + h.first_beta(), h.width() - h.first_beta(), T{0});
    if (has_rates) std::fill_n(d_rate, h.heads, T{0});
    return;
  }
  read_part_backward(row, {0, h.queries(), h.key, true}, d.queries.data() + r * h.queries(), d_z);
  read_part_backward(row, {h.first_key(), h.keys(), h.key, true}, d.keys.data() + r * h.keys(),
                     d_z + h.first_key());
  read_part_backward(row, {h.first_value(), h.values(), h.value, false}, d.values.data() + r * h.values(),
                     d_z + h.first_value());
  for (Index i = 0; i < h.betas(); ++i) {
    const T beta = read.betas.data()[r * h.betas() + i];
    d_row[h.first_beta() + i] = d.betas.data()[r * h.betas() + i] * beta * (T{1} - beta / p.beta_limit);
  }
  for (Index i = 0; i < h.decays(); ++i) {
    const T d_decay = d.log_decays.data()[r * h.decays() + i];
    const T log_decay = read.log_decays.data()[r * h.decays() + i];
    d_row[h.first_decay() + i] = d_decay * (has_rates ? -row.decay_rate(i) * sigmoid(row.decay(i))
                                                      : log_decay * sigmoid(-row.decay(i)));
    if (has_rates) d_rate[i] = d_decay * log_decay;
  }
  for (Index i = 0; i < h.removals(); ++i) {
    const T removal = read.removals.data()[r * h.removals() + i];
    d_row[h.first_removal() + i] = d.removals.data()[r * h.removals() + i] * removal * (T{1} - removal);
  }
}

}  // namespace

template <class T, class X>
void read_projections(const DeltaProjections<T>& p, const DeltaVectors<T, X>& to) {
  if constexpr (has_cuda_bodies) {
    if (p.rows.device().is_cuda()) return cuda::read_projections<T, X>(p, to);
  }
  if constexpr (std::is_same_v<T, X>) {  // the CPU has no others
    parallel_for(p.length() * p.batch(), row_grain, [&](Index first, Index last) {
      for (Index r = first; r < last; ++r) read_row(p, r, to);
    });
  }
}

template <class T, class X>
void read_projections_backward(const DeltaProjections<T>& p, const DeltaVectors<const T, const X>& read,
                               const DeltaVectors<const T, const X>& d, TensorView<T> d_channels,
                               TensorView<T> d_rows, TensorView<T> d_decay_rates) {
  if constexpr (has_cuda_bodies) {
    if (p.rows.device().is_cuda())
      return cuda::read_projections_backward<T, X>(p, read, d, d_channels, d_rows, d_decay_rates);
  }
  if constexpr (std::is_same_v<T, X>) {
    parallel_for(p.length() * p.batch(), row_grain, [&](Index first, Index last) {
      for (Index r = first; r < last; ++r)
        read_row_backward(p, r, read, d, d_channels, d_rows, d_decay_rates);
    });
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
