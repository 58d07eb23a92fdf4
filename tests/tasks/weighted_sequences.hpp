#pragma once
// Small sequences whose targets do not count alike.

#include "orthornn/tasks/data_task.hpp"
#include "support/random_tensor.hpp"
#include "tasks/own_files.hpp"

namespace orthornn::testing {

/// Thirty sequences for training, then two for validation and two for test. Class 0 has five of six.
struct RareClass {
  Tensor<float> features = normal_tensor<float>({34, 3, 1}, 1);
  Tensor<std::int32_t> classes = Tensor<std::int32_t>(Shape{34});

  RareClass() {
    for (Index i = 0; i < 34; ++i) classes(i) = i % 6 == 0 || i > 31 ? 1 : 0;
  }
  SequenceView view() const { return {.features = features, .classes = classes, .validation = 2, .test = 2}; }
};

/// Sequences of numbers with gaps, thirty of five steps with two targets at each.
struct Gaps {
  Tensor<float> features = normal_tensor<float>({34, 5, 2}, 2);
  Tensor<float> values = normal_tensor<float>({34, 5, 2}, 3);

  Gaps() {
    for (Index i = 0; i < values.size(); i += 3) values.data()[i] = missing_number;
  }
  SequenceView view() const {
    return {.features = features, .every_step = true, .values = values, .validation = 2, .test = 2};
  }
};

}  // namespace orthornn::testing
