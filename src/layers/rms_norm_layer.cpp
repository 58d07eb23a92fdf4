#include "orthornn/layers/rms_norm_layer.hpp"

#include <cmath>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/layers/rms_norm.hpp"
#include "layers/checks.hpp"
#include "layers/initialization.hpp"
#include "layers/sum_of.hpp"
#include "linalg/column_sums.hpp"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {
namespace {

/// scales [T, B] <- 1 / sqrt(mean(x^2) + epsilon) of x [T, B, N], y [T, B, N] <- scale gain x.
template <class T>
void rms_norm_forward(TensorView<const T> x, TensorView<const T> gain, T epsilon, TensorView<T> scales,
                      TensorView<T> y) {
  if constexpr (has_cuda_bodies) {
    if (y.device().is_cuda()) return cuda::rms_norm_forward<T>(x, gain, epsilon, scales, y);
  }
  const Index size = gain.size();
  const MatrixView<const T> from = columns_of(x);
  const MatrixView<T> to = columns_of(y);
  parallel_for(scales.size(), 1, [&](Index first, Index last) {
    for (Index j = first; j < last; ++j) {
      const T* column = from.column(j);
      const double squares = sum_of(size, [&](Index n) { return column[n] * column[n]; });
      const auto scale =
          static_cast<T>(1 / std::sqrt(squares / static_cast<double>(size) + static_cast<double>(epsilon)));
      T* result = to.column(j);
      for (Index n = 0; n < size; ++n) result[n] = gain(n) * (column[n] * scale);
      scales.data()[j] = scale;
    }
  });
}

/// With u = scale x: d_x = scale (gain d_y - u mean(gain d_y u)), where it is wanted; d_y becomes d_y u,
/// whose sum over all steps is the gain's gradient.
template <class T>
void rms_norm_backward(TensorView<const T> x, TensorView<const T> gain, TensorView<const T> scales,
                       TensorView<T> d_y, TensorView<T> d_x, bool adds) {
  if constexpr (has_cuda_bodies) {
    if (d_y.device().is_cuda()) return cuda::rms_norm_backward<T>(x, gain, scales, d_y, d_x, adds);
  }
  const Index size = gain.size();
  parallel_for(scales.size(), 1, [&](Index first, Index last) {
    for (Index j = first; j < last; ++j) {
      const T scale = scales.data()[j];
      const T* column = x.data() + j * size;
      T* d = d_y.data() + j * size;
      if (!d_x.empty()) {
        const double product = sum_of(size, [&](Index n) { return gain(n) * d[n] * (column[n] * scale); });
        const auto mean = static_cast<T>(product / static_cast<double>(size));
        T* to = d_x.data() + j * size;
        for (Index n = 0; n < size; ++n) {
          const T gradient = scale * (gain(n) * d[n] - column[n] * scale * mean);
          to[n] = adds ? to[n] + gradient : gradient;
        }
      }
      for (Index n = 0; n < size; ++n) d[n] *= column[n] * scale;
    }
  });
}

}  // namespace

template <class T>
Index RmsNormLayer<T>::add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                                      const RmsNorm& options, Index size) {
  check_options<T>(options, size);
  return parameters.add(prefix + "/gain", {size});
}

template <class T>
RmsNormLayer<T>::RmsNormLayer(ParameterSet<T>& parameters, const std::string& prefix, const RmsNorm& options,
                              Index size)
    : Layer<T>(parameters, size, size),
      epsilon_(static_cast<T>(options.epsilon)),
      gain_(add_parameters(parameters, prefix, options, size)) {
  this->parameters_added();
}

template <class T>
void RmsNormLayer<T>::initialize(std::uint64_t) {
  set_one<T>(this->parameters_.value(gain_));
}

template <class T>
TensorView<const T> RmsNormLayer<T>::run_forward(const SequenceInput<T>& input, States<const T>, States<T>,
                                                 Saved& saved) const {
  check_vectors(RmsNorm::name, input);
  const TensorView<T> scales = saved.push<T>({input.length(), input.batch()});
  const TensorView<T> y = saved.push<T>(input.vectors.shape());
  rms_norm_forward<T>(input.vectors, this->value(gain_), epsilon_, scales, y);
  return y;
}

template <class T>
void RmsNormLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool,
                                   Saved& saved, Saved& scratch) const {
  rms_norm_backward<T>(input.vectors, this->value(gain_), saved.top<T>(1), arguments.d_output,
                       arguments.d_input, arguments.input == Gradients::add);
  sum_rows<T>(arguments.d_output, this->gradient(gain_), scratch);
}

template class RmsNormLayer<float>;
template class RmsNormLayer<double>;

}  // namespace orthornn
