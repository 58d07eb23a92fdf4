#include "train/frames_ahead.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "core/host_copy.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/video_task.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"

namespace orthornn::testing {
namespace {

SequenceModel<float> frame_model(const Task& task, const LayerOptions& layer) {
  return SequenceModel<float>(Execution{}, model_for(task.data(), {layer}), 3);
}

const ConvNeru neru{.hidden_size = 2, .height = 8, .width = 8};

}  // namespace

TEST_CASE("frames ahead are what the model says of its own outputs", "[video][ahead]") {
  const VideoTask task({.frames = 6, .batch = 3});
  SequenceModel<float> model = frame_model(task, neru);
  Batch batch;
  task.training_batch(0, batch);
  const Tensor<float> features = batch.reals(batch_names::features).copy();
  const Tensor<float> ahead = outputs_ahead(model, batch, 4);
  REQUIRE(ahead.shape() == Shape{4, 3, 64});
  // The same frames and the pixels of those ahead of them, read as if they were true: bit for bit, as on the
  // CPU a step has the numbers of a whole sequence.
  Batch longer;
  Tensor<float>& all = longer.reals(batch_names::features);
  all.resize({5 + 3, 3, 64});
  copy<float>(features, all.view().slice(0, 5));
  Tensor<float> pixels({3, 3, 64});
  copy<float>(ahead.view().slice(0, 3), pixels);
  const auto is_pixel = [](float x) { return x >= 0 && x <= 1; };
  CHECK_FALSE(std::all_of(pixels.begin(), pixels.end(), is_pixel));  // so that the next line does something
  for (float& x : pixels) x = std::clamp(x, 0.0f, 1.0f);
  copy<float>(pixels, all.view().slice(5, 3));
  const Tensor<float> outputs = host_copy(model.forward(longer));
  for (Index i = 0; i < ahead.size(); ++i) CHECK(ahead.data()[i] == outputs.view().slice(4, 4).data()[i]);
}

TEST_CASE("frames ahead begin after the last frame of each clip", "[video][ahead]") {
  const VideoTask task({.frames = 6, .batch = 2});
  SequenceModel<float> model = frame_model(task, neru);
  Batch batch, first;
  task.training_batch(0, batch);
  Tensor<std::int32_t>& lengths = batch.integers(batch_names::lengths);
  lengths.resize({2});
  lengths(0) = 5;
  lengths(1) = 3;
  const Tensor<float> ahead = outputs_ahead(model, batch, 2);
  Tensor<float>& three = first.reals(batch_names::features);
  three.resize({3, 2, 64});
  copy<float>(std::as_const(batch).reals(batch_names::features).slice(0, 3), three.view());
  const Tensor<float> of_three = outputs_ahead(model, first, 2);
  for (Index m = 0; m < 2; ++m) {
    for (Index i = 0; i < 64; ++i) CHECK(ahead(m, 1, i) == of_three(m, 1, i));
  }
}

TEST_CASE("metrics ahead compare each frame with the true one", "[video][ahead]") {
  const VideoTask task({.frames = 6, .batch = 500});
  SequenceModel<float> model = frame_model(task, neru);
  Index batches = 0;
  const auto found = metrics_ahead(model, task, 3, [&] { ++batches; });
  CHECK(batches == 2);
  REQUIRE(found.size() == 3);
  // By hand: the mean squared error of the second frame ahead, which is frame 4 of 0 to 5.
  double sum = 0;
  Batch batch;
  for (Index i = 0; i < 2; ++i) {
    task.evaluation_batch(HeldOut::test, i, batch);
    const Tensor<float> values = batch.reals(batch_names::values).copy();
    Batch seen;
    Tensor<float>& three = seen.reals(batch_names::features);
    three.resize({3, 500, 64});
    copy<float>(std::as_const(batch).reals(batch_names::features).slice(0, 3), three.view());
    const Tensor<float> ahead = outputs_ahead(model, seen, 3);
    for (Index b = 0; b < 500; ++b) {
      for (Index p = 0; p < 64; ++p) {
        const double error = static_cast<double>(ahead(1, b, p)) - static_cast<double>(values(3, b, p));
        sum += error * error / (64 * 1000);
      }
    }
  }
  CHECK(found[1][0].metric.name == "mse");
  CHECK(found[1][0].value == Approx(sum).epsilon(1e-9));
  CHECK(found[1][0].value != found[2][0].value);
  for (const Index wrong : {0, 6})
    CHECK_THAT(error_message<ValueError>([&] { metrics_ahead(model, task, wrong); }), contains("1 to 5"));
  const AddingTask other({.length = 4, .batch = 2});
  SequenceModel<float> adding = frame_model(other, OrthogonalCell{.hidden_size = 4});
  other.training_batch(0, batch);
  CHECK_THAT(error_message<ValueError>([&] { outputs_ahead(adding, batch, 2); }), contains("next step"));
}

}  // namespace orthornn::testing
