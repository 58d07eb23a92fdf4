#include "orthornn/nn/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/back_end.hpp"
#include "core/live_steps.hpp"
#include "core/parallel.hpp"
#include "core/thread_scratch.hpp"
#include "cuda/nn/loss.hpp"
#include "orthornn/core/error.hpp"
#include "pointwise/loss.hpp"

namespace orthornn {
namespace {

struct BlockSums;

// Rows that are summed by themselves before the sums are added up in order: a size of our own, so that the
// number of threads changes no rounding.
constexpr Index block_rows = 512;

/// sum over blocks of body(first row, last row), which returns a double.
template <class Body>
double sum_over_blocks(Index rows, const Body& body) {
  const Index blocks = (rows + block_rows - 1) / block_rows;
  double* sums = thread_scratch<double, BlockSums>(blocks);
  parallel_for(blocks, 1, [&](Index first, Index last) {
    for (Index block = first; block < last; ++block) {
      sums[block] = body(block * block_rows, std::min((block + 1) * block_rows, rows));
    }
  });
  return std::accumulate(sums, sums + blocks, 0.0);
}

void check_classes(const Shape& outputs, const Shape& classes) {
  const Index class_count = outputs.rank() > 0 ? outputs[-1] : 0;
  Shape expected;
  for (int i = 0; i + 1 < outputs.rank(); ++i) expected.append(outputs[i]);
  if (class_count == 0 || !(classes == expected)) {
    throw ShapeError(
        fmt::format("classes have shape {}, outputs {}; expected one class for each row of outputs",
                    to_string(classes), to_string(outputs)));
  }
}

void check_lengths(const Shape& outputs, TensorView<const std::int32_t> lengths) {
  if (lengths.empty()) return;
  if (outputs.rank() != 3)
    throw ShapeError(
        fmt::format("lengths were given for outputs of shape {}; expected [T, B, C]", to_string(outputs)));
  check_shape("lengths", lengths.shape(), {outputs[1]});
}

pointwise::LiveRows live_rows(TensorView<const std::int32_t> lengths) {
  return {or_null(lengths), lengths.size()};
}

/// The weights, if there are any, have the shape of the targets and lie where the outputs do.
void check_weights(TensorView<const float> weights, const Shape& targets, Device device) {
  if (weights.empty()) return;
  check_shape("weights of targets", weights.shape(), targets);
  if (weights.device() == device) return;
  throw ValueError(fmt::format("weights of targets are on {}, outputs on {}; expected both on one device",
                               to_string(weights.device()), to_string(device)));
}

/// The BatchLoss that compute(value [2]) leaves in memory of the device.
template <class Compute>
BatchLoss read_back(Device device, const Compute& compute) {
  double here[2] = {};
  const TensorView<double> value(here, {2});
  if (device.is_cuda()) {
    Tensor<double> there(Shape{2}, device);
    compute(there.view());
    copy<double>(there, value);
  } else {
    compute(value);
  }
  return {.sum = here[0], .count = here[1]};
}

}  // namespace

double BatchLoss::mean() const {
  if (count == 0)
    throw ValueError(
        "no target counts: every class of the batch is negative, or every length 0, or every weight 0");
  return sum / count;
}

template <class T>
BatchLoss softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                                TensorView<const std::int32_t> lengths, bool gradient, double smoothing,
                                TensorView<const float> weights) {
  return read_back(outputs.device(), [&](TensorView<double> value) {
    softmax_cross_entropy<T>(outputs, classes, lengths, value, gradient, smoothing, weights);
  });
}

template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                           double smoothing, TensorView<const float> weights) {
  check_field<T>("softmax_cross_entropy", "smoothing", smoothing, domain::below_one);
  check_classes(outputs.shape(), classes.shape());
  check_lengths(outputs.shape(), lengths);
  check_weights(weights, classes.shape(), outputs.device());
  if constexpr (has_cuda_bodies) {
    if (outputs.device().is_cuda())
      return cuda::softmax_cross_entropy<T>(outputs, classes, lengths, value, gradient, smoothing, weights);
  }
  const pointwise::TargetWeights weight_of{or_null(weights)};
  const Index class_count = outputs.shape()[-1];
  const Index rows = classes.shape().count();
  const pointwise::LiveRows live = live_rows(lengths);
  const pointwise::Smoothing<T> smoothed(smoothing, class_count);
  const auto counts = [&](Index row) { return live(row) && weight_of(row) != 0 && classes.data()[row] >= 0; };
  double counted = 0;
  for (Index row = 0; row < rows; ++row) {
    if (!counts(row)) continue;
    const std::int32_t c = classes.data()[row];
    if (c >= class_count) throw ValueError(fmt::format("class {}; expected below {}", c, class_count));
    counted += static_cast<double>(weight_of(row));
  }
  value(0) = sum_over_blocks(rows, [&](Index first, Index last) {
    double block_sum = 0;
    for (Index row = first; row < last; ++row) {
      T* y = outputs.data() + row * class_count;
      if (!counts(row)) {
        if (gradient) std::fill(y, y + class_count, T{0});
        continue;
      }
      const std::int32_t target = classes.data()[row];
      const T weight = weight_of(row);
      const T largest = *std::max_element(y, y + class_count);
      const auto below = static_cast<double>(y[target] - largest);
      T total = 0;
      for (Index c = 0; c < class_count; ++c) {
        const T e = std::exp(y[c] - largest);
        total += e;
        if (gradient) y[c] = e;
      }
      block_sum += static_cast<double>(weight) * (std::log(static_cast<double>(total)) - below);
      if (!gradient) continue;
      const T factor = weight / total, of_each = weight * smoothed.of_each;
      for (Index c = 0; c < class_count; ++c) y[c] = factor * y[c] - of_each;
      y[target] -= weight * smoothed.of_target;
    }
    return block_sum;
  });
  value(1) = counted;
}

namespace {

/// The loss of numbers, with or without the absolute difference.
template <class T>
void error_of_numbers(TensorView<T> outputs, TensorView<const float> values,
                      TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                      TensorView<const float> weights, bool with_absolute) {
  check_shape("target values", values.shape(), outputs.shape());
  check_lengths(outputs.shape(), lengths);
  check_weights(weights, values.shape(), outputs.device());
  if constexpr (has_cuda_bodies) {
    if (outputs.device().is_cuda())
      return cuda::error_of_numbers<T>(outputs, values, lengths, value, gradient, weights, with_absolute);
  }
  const Index columns = outputs.shape()[-1];
  const Index rows = columns == 0 ? 0 : outputs.size() / columns;
  const pointwise::LiveRows live = live_rows(lengths);
  const pointwise::TargetWeights weight_of{or_null(weights)};
  const pointwise::SquaredError<T> error{outputs.data(), values.data(), weight_of, gradient, with_absolute};
  double counted = 0;
  for (Index row = 0; row < rows; ++row) {
    if (!live(row)) continue;
    if (weights.empty()) {
      counted += static_cast<double>(columns);
      continue;
    }
    for (Index i = row * columns; i < (row + 1) * columns; ++i) counted += static_cast<double>(weight_of(i));
  }
  value(0) = sum_over_blocks(rows, [&](Index first, Index last) {
    double block_sum = 0;
    for (Index row = first; row < last; ++row) {
      if (live(row)) {
        for (Index i = row * columns; i < (row + 1) * columns; ++i) block_sum += error(i);
      } else if (gradient) {
        std::fill_n(outputs.data() + row * columns, columns, T{0});
      }
    }
    return block_sum;
  });
  value(1) = counted;
}

}  // namespace

template <class T>
BatchLoss mean_squared_error(TensorView<T> outputs, TensorView<const float> values,
                             TensorView<const std::int32_t> lengths, bool gradient,
                             TensorView<const float> weights) {
  return read_back(outputs.device(), [&](TensorView<double> value) {
    mean_squared_error<T>(outputs, values, lengths, value, gradient, weights);
  });
}

template <class T>
void mean_squared_error(TensorView<T> outputs, TensorView<const float> values,
                        TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                        TensorView<const float> weights) {
  error_of_numbers<T>(outputs, values, lengths, value, gradient, weights, /*with_absolute=*/false);
}

template <class T>
BatchLoss absolute_and_squared_error(TensorView<T> outputs, TensorView<const float> values,
                                     TensorView<const std::int32_t> lengths, bool gradient,
                                     TensorView<const float> weights) {
  return read_back(outputs.device(), [&](TensorView<double> value) {
    absolute_and_squared_error<T>(outputs, values, lengths, value, gradient, weights);
  });
}

template <class T>
void absolute_and_squared_error(TensorView<T> outputs, TensorView<const float> values,
                                TensorView<const std::int32_t> lengths, TensorView<double> value,
                                bool gradient, TensorView<const float> weights) {
  error_of_numbers<T>(outputs, values, lengths, value, gradient, weights, /*with_absolute=*/true);
}

#define ORTHORNN_INSTANTIATE(T)                                                                            \
  template BatchLoss softmax_cross_entropy<T>(TensorView<T>, TensorView<const std::int32_t>,               \
                                              TensorView<const std::int32_t>, bool, double,                \
                                              TensorView<const float>);                                    \
  template void softmax_cross_entropy<T>(TensorView<T>, TensorView<const std::int32_t>,                    \
                                         TensorView<const std::int32_t>, TensorView<double>, bool, double, \
                                         TensorView<const float>);                                         \
  template BatchLoss mean_squared_error<T>(TensorView<T>, TensorView<const float>,                         \
                                           TensorView<const std::int32_t>, bool, TensorView<const float>); \
  template void mean_squared_error<T>(TensorView<T>, TensorView<const float>,                              \
                                      TensorView<const std::int32_t>, TensorView<double>, bool,            \
                                      TensorView<const float>);                                            \
  template BatchLoss absolute_and_squared_error<T>(TensorView<T>, TensorView<const float>,                 \
                                                   TensorView<const std::int32_t>, bool,                   \
                                                   TensorView<const float>);                               \
  template void absolute_and_squared_error<T>(TensorView<T>, TensorView<const float>,                      \
                                              TensorView<const std::int32_t>, TensorView<double>, bool,    \
                                              TensorView<const float>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
