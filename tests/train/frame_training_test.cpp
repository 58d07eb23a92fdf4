// What holds of a convolutional recurrence after a training.

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "layers/frame_convolution.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/orthogonal/truncated_cwy.hpp"
#include "orthornn/tasks/video_task.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

double norm_of_frame(ConstTensorView<float> x) {
  double sum = 0;
  for (const float number : x) sum += static_cast<double>(number) * static_cast<double>(number);
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("the hidden convolution of ConvNERU enlarges no state after a training either", "[video][train]") {
  const Index size = 8, f = 4, q = GENERATE(3, 5), numbers = size * size * f;
  const VideoTask task({.frames = 6, .batch = 8});
  SequenceModel<float> model(
      Execution{},
      model_for(task.data(), {ConvNeru{.hidden_size = f, .height = size, .width = size, .kernel_size = q}}));
  const auto kernel_of = [&] {
    TruncatedCwy<float> point(q * q * f, f);
    point.prepare(model.parameters().value(model.parameters().find("cell/hidden_reflection_vectors")));
    return point.materialize();
  };
  const Tensor<float> before = kernel_of();
  // Steps so long that the kernel is another one.
  Trainer trainer(model, task, {.optimizer = Adam{.lr = 0.02, .lr_orthogonal = 0.1}});
  trainer.run(20, [](const TrainingStep&) { return true; });
  const Tensor<float> kernel = kernel_of();
  double largest_change = 0;
  for (Index i = 0; i < kernel.size(); ++i)
    largest_change =
        std::max(largest_change, std::abs(static_cast<double>(kernel.data()[i] - before.data()[i])));
  CHECK(largest_change > 0.1);
  const FrameConvolution<float> hidden(size, size, q, f, f, 1 / static_cast<float>(q), {});
  Tensor<float> y({1, numbers}), neighbours(hidden.neighbours_shape(1));
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Tensor<float> h = normal_tensor<float>({1, numbers}, seed);
    y.resize(y.shape());
    hidden.add(kernel, h, y, neighbours);
    CHECK(norm_of_frame(y) <= (1 + tolerance::rounding<float>(numbers)) * norm_of_frame(h));
    CHECK(norm_of_frame(y) > 0);
  }
}

}  // namespace orthornn::testing
