#include "tasks/count_right.hpp"

#include <fmt/format.h>

#include <initializer_list>

#include "core/back_end.hpp"
#include "cuda/tasks/count_right.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

bool is_largest(ConstTensorView<float> row, Index target) {
  if (target >= row.size()) return false;  // a class beyond the last, which the loss refuses
  for (Index c = 0; c < row.size(); ++c) {
    if (c != target && !(row(target) > row(c))) return false;
  }
  return true;
}

void check_devices(ConstTensorView<float> outputs, ConstTensorView<std::int32_t> classes,
                   TensorView<double> score) {
  for (const Device device : {classes.device(), score.device()}) {
    if (device == outputs.device()) continue;
    throw DeviceError(
        fmt::format("outputs lie in memory of {}, classes or score in that of {}; expected one device",
                    to_string(outputs.device()), to_string(device)));
  }
}

}  // namespace

void count_right(ConstTensorView<float> outputs, ConstTensorView<std::int32_t> classes,
                 TensorView<double> score) {
  check_shape("classes", classes.shape(), {outputs.shape()[0]});
  check_shape("score", score.shape(), {2});
  check_devices(outputs, classes, score);
  if constexpr (has_cuda_bodies) {
    if (outputs.device().is_cuda()) return cuda::count_right(outputs, classes, score);
  }
  for (Index i = 0; i < classes.size(); ++i) {
    if (classes(i) < 0) continue;
    score(0) += is_largest(outputs[i], classes(i)) ? 1 : 0;
    score(1) += 1;
  }
}

void count_right_steps(const char* what, ConstTensorView<float> outputs,
                       ConstTensorView<std::int32_t> classes, Index class_count, TensorView<double> score) {
  const Index length = classes.shape()[0], count = classes.shape()[1];
  check_shape(what, outputs.shape(), {length, count, class_count});
  count_right(outputs.reshaped({length * count, class_count}), classes.reshaped({length * count}), score);
}

void count_right_sequences(ConstTensorView<float> outputs, ConstTensorView<std::int32_t> classes,
                           TensorView<double> score) {
  check_shape("outputs", outputs.shape(), {classes.shape()[0], classes.shape()[1], outputs.shape()[2]});
  check_shape("score", score.shape(), {2});
  check_devices(outputs, classes, score);
  if constexpr (has_cuda_bodies) {
    if (outputs.device().is_cuda()) return cuda::count_right_sequences(outputs, classes, score);
  }
  for (Index b = 0; b < classes.shape()[1]; ++b) {
    bool counts = false, right = true;
    for (Index t = 0; t < classes.shape()[0] && right; ++t) {
      if (classes(t, b) < 0) continue;
      counts = true;
      right = is_largest(outputs[t][b], classes(t, b));
    }
    score(0) += counts && right ? 1 : 0;
    score(1) += counts ? 1 : 0;
  }
}

}  // namespace orthornn
