#include "orthornn/nn/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/parallel.hpp"
#include "core/thread_scratch.hpp"
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

template <class T>
double softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes, bool gradient) {
  const Shape& shape = outputs.shape();
  const Index class_count = shape.rank() > 0 ? shape[-1] : 0;
  const Index rows = class_count > 0 ? shape.count() / class_count : 0;
  Shape expected;
  for (int i = 0; i + 1 < shape.rank(); ++i) expected.append(shape[i]);
  if (class_count == 0 || !(classes.shape() == expected)) {
    throw ShapeError(
        fmt::format("classes have shape {}, outputs {}; expected one class for each row of outputs",
                    to_string(classes.shape()), to_string(outputs.shape())));
  }
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
double mean_squared_error(TensorView<T> outputs, TensorView<const float> values, bool gradient) {
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

template double softmax_cross_entropy<float>(TensorView<float>, TensorView<const std::int32_t>, bool);
template double softmax_cross_entropy<double>(TensorView<double>, TensorView<const std::int32_t>, bool);
template double mean_squared_error<float>(TensorView<float>, TensorView<const float>, bool);
template double mean_squared_error<double>(TensorView<double>, TensorView<const float>, bool);

}  // namespace orthornn
