#include "orthornn/nn/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "core/thread_scratch.hpp"
#include "cuda/nn/loss.hpp"
#include "orthornn/core/error.hpp"

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

}  // namespace

std::string name_of(Loss loss) {
  return loss == Loss::softmax_cross_entropy ? "softmax_cross_entropy" : "mean_squared_error";
}

Loss parse_loss(const std::string& name) {
  for (const Loss loss : {Loss::softmax_cross_entropy, Loss::mean_squared_error}) {
    if (name == name_of(loss)) return loss;
  }
  throw ValueError(
      fmt::format("unknown loss '{}'; expected softmax_cross_entropy or mean_squared_error", name));
}

namespace {

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

/// The value that compute(device memory) leaves there.
template <class Compute>
double read_back(Device device, const Compute& compute) {
  Tensor<double> value(Shape{1}, device);
  compute(value.view());
  return value.copy(Device::cpu())(0);
}

}  // namespace

template <class T>
double softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes, bool gradient) {
  if constexpr (has_cuda_bodies) {
    if (outputs.device().is_cuda()) {
      return read_back(outputs.device(), [&](TensorView<double> value) {
        orthornn::softmax_cross_entropy<T>(outputs, classes, value, gradient);
      });
    }
  }
  check_classes(outputs.shape(), classes.shape());
  const Index class_count = outputs.shape()[-1];
  const Index rows = classes.shape().count();
  Index counted = 0;
  for (const std::int32_t c : classes) {
    if (c >= class_count) throw ValueError(fmt::format("class {}; expected below {}", c, class_count));
    counted += c >= 0;
  }
  if (counted == 0) throw ValueError("no target counts: every class of the batch is negative");
  const double scale = 1.0 / static_cast<double>(counted);

  return scale * sum_over_blocks(rows, [&](Index first, Index last) {
           double sum = 0;
           for (Index row = first; row < last; ++row) {
             T* y = outputs.data() + row * class_count;
             const std::int32_t target = classes.data()[row];
             if (target < 0) {
               if (gradient) std::fill(y, y + class_count, T{0});
               continue;
             }
             const T largest = *std::max_element(y, y + class_count);
             T total = 0;
             for (Index c = 0; c < class_count; ++c) total += std::exp(y[c] - largest);
             sum += std::log(static_cast<double>(total)) - static_cast<double>(y[target] - largest);
             if (!gradient) continue;
             const T factor = static_cast<T>(scale) / total;
             for (Index c = 0; c < class_count; ++c) y[c] = factor * std::exp(y[c] - largest);
             y[target] -= static_cast<T>(scale);
           }
           return sum;
         });
}

template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<double> value, bool gradient) {
  if constexpr (has_cuda_bodies) {
    if (outputs.device().is_cuda()) {
      check_classes(outputs.shape(), classes.shape());
      return cuda::softmax_cross_entropy<T>(outputs, classes, value, gradient);
    }
  }
  value(0) = softmax_cross_entropy<T>(outputs, classes, gradient);
}

template <class T>
double mean_squared_error(TensorView<T> outputs, TensorView<const float> values, bool gradient) {
  if constexpr (has_cuda_bodies) {
    if (outputs.device().is_cuda()) {
      return read_back(outputs.device(), [&](TensorView<double> value) {
        orthornn::mean_squared_error<T>(outputs, values, value, gradient);
      });
    }
  }
  check_shape("target values", values.shape(), outputs.shape());
  const double scale = 1.0 / static_cast<double>(outputs.size());
  return scale * sum_over_blocks(outputs.size(), [&](Index first, Index last) {
           double sum = 0;
           for (Index i = first; i < last; ++i) {
             const double difference =
                 static_cast<double>(outputs.data()[i]) - static_cast<double>(values.data()[i]);
             sum += difference * difference;
             if (gradient) outputs.data()[i] = static_cast<T>(2 * scale * difference);
           }
           return sum;
         });
}

template <class T>
void mean_squared_error(TensorView<T> outputs, TensorView<const float> values, TensorView<double> value,
                        bool gradient) {
  if constexpr (has_cuda_bodies) {
    if (outputs.device().is_cuda()) {
      check_shape("target values", values.shape(), outputs.shape());
      return cuda::mean_squared_error<T>(outputs, values, value, gradient);
    }
  }
  value(0) = mean_squared_error<T>(outputs, values, gradient);
}

#define ORTHORNN_INSTANTIATE(T)                                                                             \
  template double softmax_cross_entropy<T>(TensorView<T>, TensorView<const std::int32_t>, bool);            \
  template void softmax_cross_entropy<T>(TensorView<T>, TensorView<const std::int32_t>, TensorView<double>, \
                                         bool);                                                             \
  template double mean_squared_error<T>(TensorView<T>, TensorView<const float>, bool);                      \
  template void mean_squared_error<T>(TensorView<T>, TensorView<const float>, TensorView<double>, bool);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
