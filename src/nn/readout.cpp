#include "orthornn/nn/readout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/fill_on_host.hpp"
#include "core/parallel.hpp"
#include "core/set_zero.hpp"
#include "core/thread_scratch.hpp"
#include "cuda/cells/input_product.hpp"
#include "linalg/gemm.hpp"
#include "linalg/packed_matrix.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {
namespace {

// Columns a thread takes at a time; a multiple of the product kernel's column group.
constexpr Index column_grain = 16;

struct BiasSums;

}  // namespace

template <class T>
struct Readout<T>::Product {
  PackedMatrix<T> forward;
  PackedMatrix<T> backward;
};

template <class T>
typename Readout<T>::Places Readout<T>::add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                                                       Index hidden_size, Index outputs) {
  if (outputs < 1) throw ValueError(fmt::format("a readout of {} outputs; expected at least 1", outputs));
  return {.weight = parameters.add(prefix + "/weight", {outputs, hidden_size}),
          .bias = parameters.add(prefix + "/bias", {outputs})};
}

template <class T>
Readout<T>::Readout(ParameterSet<T>& parameters, const std::string& prefix, Index hidden_size, Index outputs,
                    const Execution& execution)
    : parameters_(parameters),
      hidden_size_(hidden_size),
      outputs_(outputs),
      execution_(execution),
      places_(add_parameters(parameters, prefix, hidden_size, outputs)),
      product_(std::make_unique<Product>()) {}

template <class T>
Readout<T>::~Readout() = default;

template <class T>
void Readout<T>::initialize(std::uint64_t seed) {
  fill_on_host(parameters_.value(places_.weight), [&](TensorView<T> weight) {
    RandomStream random(seed, RandomPurpose::initialization, 3);
    const double deviation = 1 / std::sqrt(static_cast<double>(hidden_size_));
    for (T& w : weight) w = static_cast<T>(deviation * random.normal());
  });
  set_zero(parameters_.value(places_.bias));
}

/// h [.., B, N] and y [.., B, C] with one y for each h.
template <class T>
void Readout<T>::check_pair(const Shape& h, const Shape& y) const {
  if (h.rank() >= 2 && y.rank() == h.rank() && h[-1] == hidden_size_ && y[-1] == outputs_ &&
      h.count() / hidden_size_ == y.count() / outputs_) {
    return;
  }
  throw ShapeError(fmt::format("states have shape {} and outputs {}; expected [.., B, {}] and [.., B, {}]",
                               to_string(h), to_string(y), hidden_size_, outputs_));
}

template <class T>
void Readout<T>::prepare() {
  if (execution_.device.is_cuda()) return;  // cuBLAS reads R as it lies
  // R [C, N] is R^T in the column-major view.
  const auto weight_transposed = columns_of(std::as_const(parameters_).value(places_.weight));
  product_->forward.pack(transposed(weight_transposed));
  product_->backward.pack(weight_transposed);
}

template <class T>
void Readout<T>::forward(ConstTensorView<T> h, TensorView<T> y) const {
  check_pair(h.shape(), y.shape());
  const MatrixView<const T> states = columns_of(h);
  const MatrixView<T> outputs = columns_of(y);
  const TensorView<const T> bias = std::as_const(parameters_).value(places_.bias);
  if constexpr (has_cuda_bodies) {
    if (y.device().is_cuda()) {
      cuda::fill_with_bias<T>(bias, y);
      return gemm<T>(1, transposed(columns_of(std::as_const(parameters_).value(places_.weight))), states, 1,
                     outputs, execution_.precision);
    }
  }
  // One product for each [B, N] slice, so that one step alone (generation) gives the same numbers.
  const Index batch = h.shape()[-2];
  parallel_for(outputs.cols / batch, 1, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) {
      const MatrixView<T> part = outputs.columns(t * batch, batch);
      for (Index j = 0; j < part.cols; ++j) std::copy(bias.begin(), bias.end(), part.column(j));
      product_->forward.multiply_add(1, states.columns(t * batch, batch), part);
    }
  });
}

template <class T>
void Readout<T>::backward(ConstTensorView<T> h, ConstTensorView<T> d_y, TensorView<T> d_h) {
  check_pair(h.shape(), d_y.shape());
  check_shape("d_h", d_h.shape(), h.shape());
  const MatrixView<const T> states = columns_of(h);
  const MatrixView<const T> d_outputs = columns_of(d_y);
  const MatrixView<T> d_states = columns_of(d_h);
  // dR = dY H^T in C order: H dY^T in the column-major view.
  gemm<T>(1, states, transposed(d_outputs), 0, columns_of(parameters_.gradient(places_.weight)),
          execution_.precision);
  const TensorView<T> d_bias = parameters_.gradient(places_.bias);
  if constexpr (has_cuda_bodies) {
    if (d_h.device().is_cuda()) {
      cuda::sum_columns<T>(d_y, {.total = d_bias});
      return gemm<T>(1, columns_of(std::as_const(parameters_).value(places_.weight)), d_outputs, 0, d_states,
                     execution_.precision);
    }
  }
  // In double, as InputProduct's sums.
  double* sums = thread_scratch<double, BiasSums>(outputs_);
  std::fill(sums, sums + outputs_, 0.0);
  for (Index j = 0; j < d_outputs.cols; ++j) {
    for (Index i = 0; i < outputs_; ++i) sums[i] += d_outputs(i, j);
  }
  std::transform(sums, sums + outputs_, d_bias.begin(), [](double sum) { return static_cast<T>(sum); });
  parallel_for(d_states.cols, column_grain, [&](Index first, Index last) {
    const MatrixView<T> part = d_states.columns(first, last - first);
    std::fill(part.data, part.data + part.rows * part.cols, T{0});
    product_->backward.multiply_add(1, d_outputs.columns(first, last - first), part);
  });
}

template class Readout<float>;
template class Readout<double>;

}  // namespace orthornn
