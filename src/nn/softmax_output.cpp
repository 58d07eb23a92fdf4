#include "orthornn/nn/softmax_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <type_traits>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "core/set_zero.hpp"
#include "cuda/nn/loss.hpp"
#include "layers/copy_to_rows.hpp"
#include "layers/initialization.hpp"
#include "linalg/column_sums.hpp"
#include "linalg/gemm.hpp"
#include "orthornn/core/convert.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/nn/loss.hpp"

namespace orthornn {
namespace {

/// Numbers of T as operands of type P: as they are, or rounded, with rows of zeros up to `rows`.
template <class P, class T>
TensorView<const P> as_operand(TensorView<const T> numbers, Index rows, Saved& scratch) {
  if constexpr (std::is_same_v<P, T>) {
    return numbers;
  } else {
    const Index here = numbers.shape()[0];
    const TensorView<P> rounded = scratch.push<P>({rows, numbers.shape()[1]});
    convert(numbers, rounded.slice(0, here));
    if (here < rows) set_zero(rounded.slice(here, rows - here));
    return rounded;
  }
}

/// Numbers from a row of outputs to the next: a multiple of 16 bytes on a GPU, without which the tensor
/// cores' fastest kernels cannot read them.
Index stride_of(Index classes, Device device) { return device.is_cuda() ? (classes + 7) / 8 * 8 : classes; }

/// softmax_cross_entropy of outputs + bias [C], where each of R columns of C rows has the outputs of a
/// target. The gradient is not computed if it is empty; what the outputs hold then is unspecified. On the CPU
/// outputs have no gaps, and the gradient takes their place (both asserted). On a GPU the gradient may lie
/// elsewhere, and be bfloat16. It is memory of stride * R numbers there; those behind each column become 0.
/// A GPU adds the bias where it reads the outputs: with C = 24,852 and R = 1,266 they are 126 MB, which would
/// be written and read once more.
template <class T, class G>
void biased_cross_entropy(MatrixView<T> outputs, TensorView<const T> bias,
                          TensorView<const std::int32_t> classes, TensorView<double> value,
                          MatrixView<G> gradient, double smoothing) {
  const Index rows = classes.size(), class_count = bias.size();
  assert(outputs.cols == rows && outputs.rows == class_count);
  if constexpr (has_cuda_bodies) {
    if (outputs.device.is_cuda())
      return cuda::biased_cross_entropy<T, G>(outputs, bias, classes, value, gradient, smoothing);
  }
  const void* const place = gradient.data;
  assert(place == nullptr || place == outputs.data);
  assert(outputs.stride == class_count);
  parallel_for(rows, 1, [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      T* const y = outputs.column(row);
      for (Index c = 0; c < class_count; ++c) y[c] += bias.data()[c];
    }
  });
  softmax_cross_entropy<T>(TensorView<T>(outputs.data, {rows, class_count}), classes, {}, value,
                           place != nullptr, smoothing);
}

}  // namespace

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
  RandomStream random(seed, RandomPurpose::initialization, 3);
  draw_normal<T>(parameters_.value(places_.weight), 1 / std::sqrt(static_cast<double>(input_size_)), random);
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
  if constexpr (has_cuda_bodies && std::is_same_v<T, float>) {
    if (h.device().is_cuda() && execution_.precision == Precision::bf16)
      return run_with<bfloat16>(h, classes, smoothing, d_h, value, scratch);
  }
  run_with<T>(h, classes, smoothing, d_h, value, scratch);
}

template <class T>
template <class P>
void SoftmaxOutput<T>::run_with(TensorView<const T> h, TensorView<const std::int32_t> classes,
                                double smoothing, TensorView<T> d_h, TensorView<double> value,
                                Saved& scratch) const {
  const Index rows = classes.size();
  if (rows < 1) throw ShapeError("a softmax of no rows; expected at least one");
  Shape expected = classes.shape();
  expected.append(input_size_);
  check_shape("inputs of a softmax", h.shape(), expected);
  const bool gradient = !d_h.empty();
  check_field<T>("softmax", "smoothing", smoothing, domain::below_one);
  // 1. Parts of about the same size.
  const Index chunks = (rows - 1) / std::clamp<Index>(most_outputs_ / classes_, 1, rows) + 1;
  const Index rows_of_chunk = (rows - 1) / chunks + 1, stride = stride_of(classes_, h.device());
  const Saved::Scope scope(scratch);
  const TensorView<double> values = scratch.push<double>({chunks, 2});
  const TensorView<T> d_biases = scratch.push<T>({gradient ? chunks : 0, classes_});
  const TensorView<T> outputs = scratch.push<T>({rows_of_chunk, stride});
  const ParameterSet<T>& parameters = parameters_;
  const TensorView<const T> bias = parameters.value(places_.bias);
  // Rounded weights have zeros for classes up to the stride: then the products of y and d_h, of which classes
  // are a side or the sum, have lengths that are multiples of 16 bytes.
  const auto weights = columns_of(as_operand<P>(parameters.value(places_.weight), stride, scratch));
  const TensorView<const P> flat_h = as_operand<P>(h.reshaped({rows, input_size_}), rows, scratch);
  const TensorView<const std::int32_t> flat_classes = classes.reshaped({rows});
  // 2. The outputs of a part, and their gradient in their place if it has their type.
  const auto d_outputs = [&] {
    if constexpr (std::is_same_v<P, T>) return outputs;
    return scratch.push<P>({gradient ? rows_of_chunk : 0, stride});
  }();
  const auto multiply = [&](const Operand<P>& a, const Operand<P>& b, T beta, MatrixView<T> c) {
    if constexpr (std::is_same_v<P, T>) {
      gemm<T>(1, a, b, beta, c, execution_.precision);
    } else {
      gemm(a, b, beta, c);
    }
  };
  for (Index chunk = 0; chunk < chunks; ++chunk) {
    const Index first = chunk * rows_of_chunk, count = std::min(rows_of_chunk, rows - first);
    const MatrixView<const P> h_part = columns_of(flat_h.slice(first, count));
    const TensorView<const std::int32_t> part_classes = flat_classes.slice(first, count);
    const MatrixView<T> y{outputs.data(), classes_, count, stride, h.device()};
    const MatrixView<P> d_y{d_outputs.data(), classes_, count, stride, h.device()};
    multiply(transposed(weights), h_part, 0, {outputs.data(), weights.cols, count, stride, h.device()});
    biased_cross_entropy<T, P>(y, bias, part_classes, values[chunk], gradient ? d_y : MatrixView<P>(),
                               smoothing);
    if (!gradient) continue;
    // 3. What they are gradients of.
    sum_columns<T>(MatrixView<const P>(d_y), {.total = d_biases[chunk]}, scratch);
    multiply(h_part, transposed(d_y), chunk == 0 ? 0 : 1, columns_of(parameters_.gradient(places_.weight)));
    multiply(weights, MatrixView<P>{d_outputs.data(), weights.cols, count, stride, h.device()}, 0,
             columns_of(d_h.reshaped({rows, input_size_}).slice(first, count)));
  }
  // 4. Sums over the parts.
  sum_rows<double>(values, value, scratch);
  if (gradient) sum_rows<T>(d_biases, parameters_.gradient(places_.bias), scratch);
}

template class SoftmaxOutput<float>;
template class SoftmaxOutput<double>;

}  // namespace orthornn
