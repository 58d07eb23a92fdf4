#include "orthornn/nn/softmax_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/fill_on_host.hpp"
#include "core/set_zero.hpp"
#include "layers/copy_to_rows.hpp"
#include "layers/sum_rows.hpp"
#include "linalg/gemm.hpp"
#include "nn/biased_loss.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {

template <class T>
typename SoftmaxOutput<T>::Places SoftmaxOutput<T>::add_parameters(ParameterSet<T>& parameters,
                                                                   const std::string& prefix,
                                                                   Index input_size, Index classes,
                                                                   std::optional<Index> tied) {
  if (input_size < 1 || classes < 1) {
    throw ValueError(fmt::format("a softmax of {} inputs and {} classes; expected at least 1 of each",
                                 input_size, classes));
  }
  const Shape shape{classes, input_size};
  if (tied) {
    const Shape& found = parameters.list()[static_cast<std::size_t>(*tied)].shape;
    if (!(found == shape)) {
      throw ValueError(
          fmt::format("a softmax of weights {} was tied to a parameter of shape {}; expected the same",
                      to_string(shape), to_string(found)));
    }
  }
  return {.weight = tied ? *tied : parameters.add(prefix + "/weight", shape),
          .bias = parameters.add(prefix + "/bias", {classes})};
}

template <class T>
SoftmaxOutput<T>::SoftmaxOutput(ParameterSet<T>& parameters, const std::string& prefix, Index input_size,
                                Index classes, std::optional<Index> tied, const Execution& execution,
                                Index most_outputs)
    : parameters_(parameters),
      places_(add_parameters(parameters, prefix, input_size, classes, tied)),
      input_size_(input_size),
      classes_(classes),
      execution_(execution),
      most_outputs_(most_outputs) {}

template <class T>
void SoftmaxOutput<T>::initialize(std::uint64_t seed) {
  fill_on_host(parameters_.value(places_.weight), [&](TensorView<T> weight) {
    RandomStream random(seed, RandomPurpose::initialization, 3);
    const double deviation = 1 / std::sqrt(static_cast<double>(input_size_));
    for (T& w : weight) w = static_cast<T>(deviation * random.normal());
  });
  set_zero(parameters_.value(places_.bias));
}

template <class T>
void SoftmaxOutput<T>::outputs(TensorView<const T> h, TensorView<T> y) const {
  const Index rows = y.size() / classes_;
  check_shape("inputs of a softmax", h.shape(), {rows, input_size_});
  check_shape("outputs of a softmax", y.shape(), {rows, classes_});
  const ParameterSet<T>& parameters = parameters_;
  copy_to_rows<T>(parameters.value(places_.bias), y);
  gemm<T>(1, transposed(columns_of(parameters.value(places_.weight))), columns_of(h), 1, columns_of(y),
          execution_.precision);
}

template <class T>
void SoftmaxOutput<T>::loss(TensorView<const T> h, TensorView<const std::int32_t> classes,
                            TensorView<double> value, Saved& scratch) const {
  run(h, classes, 0, {}, value, scratch);
}

template <class T>
void SoftmaxOutput<T>::loss_and_gradient(TensorView<const T> h, TensorView<const std::int32_t> classes,
                                         double smoothing, TensorView<T> d_h, TensorView<double> value,
                                         Saved& scratch) const {
  check_shape("d_h", d_h.shape(), h.shape());
  run(h, classes, smoothing, d_h, value, scratch);
}

/// Without gradients where d_h is empty.
template <class T>
void SoftmaxOutput<T>::run(TensorView<const T> h, TensorView<const std::int32_t> classes, double smoothing,
                           TensorView<T> d_h, TensorView<double> value, Saved& scratch) const {
  const Index rows = classes.size();
  if (rows < 1) throw ShapeError("a softmax of no rows; expected at least one");
  Shape expected = classes.shape();
  expected.append(input_size_);
  check_shape("inputs of a softmax", h.shape(), expected);
  const bool gradient = !d_h.empty();
  check_field<T>("softmax", "smoothing", smoothing, domain::below_one);
  // 1. Parts of about the same size.
  const Index chunks = (rows - 1) / std::clamp<Index>(most_outputs_ / classes_, 1, rows) + 1;
  const Index rows_of_chunk = (rows - 1) / chunks + 1;
  const Saved::Scope scope(scratch);
  const TensorView<double> values = scratch.push<double>({chunks, 2});
  const TensorView<T> d_biases = scratch.push<T>({gradient ? chunks : 0, classes_});
  const TensorView<T> memory = scratch.push<T>({rows_of_chunk, classes_});
  const MatrixView<const T> weights = columns_of(std::as_const(parameters_).value(places_.weight));
  const TensorView<const T> bias = std::as_const(parameters_).value(places_.bias);
  const TensorView<const T> flat_h = h.reshaped({rows, input_size_});
  const TensorView<const std::int32_t> flat_classes = classes.reshaped({rows});
  for (Index chunk = 0; chunk < chunks; ++chunk) {
    // 2. The outputs of a part, and their gradient in their place.
    const Index first = chunk * rows_of_chunk, count = std::min(rows_of_chunk, rows - first);
    const TensorView<const T> h_part = flat_h.slice(first, count);
    const TensorView<T> y = memory.slice(0, count);
    gemm<T>(1, transposed(weights), columns_of(h_part), 0, columns_of(y), execution_.precision);
    biased_cross_entropy<T>(y, bias, flat_classes.slice(first, count), values[chunk], gradient, smoothing);
    if (!gradient) continue;
    // 3. What they are gradients of.
    const MatrixView<const T> d_y = columns_of(y);
    sum_rows<T>(y, d_biases[chunk], scratch);
    gemm<T>(1, columns_of(h_part), transposed(d_y), chunk == 0 ? 0 : 1,
            columns_of(parameters_.gradient(places_.weight)), execution_.precision);
    gemm<T>(1, weights, d_y, 0, columns_of(d_h.reshaped({rows, input_size_}).slice(first, count)),
            execution_.precision);
  }
  // 4. Sums over the parts.
  sum_rows<double>(values, value, scratch);
  if (gradient) sum_rows<T>(d_biases, parameters_.gradient(places_.bias), scratch);
}

template class SoftmaxOutput<float>;
template class SoftmaxOutput<double>;

}  // namespace orthornn
