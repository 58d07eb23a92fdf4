#include <initializer_list>
#include <memory>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/same_bits.hpp"
#include "support/small_batch.hpp"
#include "support/smooth_cell.hpp"
#include "support/temporary_folder.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

std::vector<ModelOptions> kinds_for_gpus() {
  OrthogonalCell stiefel = smooth_cell(6, Cwy{.reflections = 2});
  stiefel.input_matrix = InputMatrix::stiefel;
  stiefel.learn_initial_state = true;
  std::vector<ModelOptions> kinds;
  for (const auto& cells :
       {std::vector<LayerOptions>{smooth_cell(7)},
        std::vector<LayerOptions>{stiefel, smooth_cell(5, ScaledCayley{})},
        std::vector<LayerOptions>{Lstm{6}, smooth_cell(5), Gru{4}},
        std::vector<LayerOptions>{Gru{3}, Residual{{RmsNorm{}, smooth_cell(3)}}, Linear{4}}}) {
    for (const InputOptions& input :
         {InputOptions(DenseInput{3}), InputOptions(OneHot{5}), InputOptions(TokenEmbedding{40, 3})}) {
      kinds.push_back({input, cells, EveryStep{4}, Loss::softmax_cross_entropy});
      kinds.push_back({input, cells, LastStep{2}, Loss::mean_squared_error});
      kinds.push_back({input, cells, EveryStep{2}, Loss::mean_squared_error});
    }
  }
  // Frames of 1 x 3 pixels, of which each has two outputs.
  kinds.push_back({DenseInput{3},
                   {ConvNeru{.hidden_size = 2, .height = 1, .width = 3}},
                   EveryPixel{.outputs = 6, .pixels = 3},
                   Loss::absolute_and_squared_error});
  return kinds;
}

}  // namespace

TEMPLATE_TEST_CASE("models on a GPU have the losses and gradients of the CPU", "[cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  const Index length = 6;
  for (const ModelOptions& options : kinds_for_gpus()) {
    for (const Index batch_size : {1, 3}) {
      for (const bool with_lengths : {false, true}) {
        CAPTURE(options.input.index(), options.readout.index(), options.cells.size(), batch_size,
                with_lengths);
        SequenceModel<double> expected(Device::cpu(), options, 3);
        SequenceModel<T> found(*device, options, 3);
        draw_initial_states(expected);
        draw_initial_states(found);
        Batch batch = batch_for(options, length, batch_size);
        if (with_lengths) batch.integers(batch_names::lengths) = mixed_lengths(length, batch_size);
        const double expected_loss = expected.loss_and_gradient(batch).mean();
        const Batch there = batch.copy(*device);
        const double loss = found.loss_and_gradient(there).mean();
        // Every step is a product over at most 7 entries and a tanh; 10 is the condition of S.
        const double bound = 10 * static_cast<double>(length) * tolerance::rounding<T>(7);
        CHECK(std::abs(loss - expected_loss) <= bound * (1 + expected_loss));
        const Tensor<T> gradient = found.parameters().gradients().copy(Device::cpu());
        CHECK(relative_error(gradient, expected.parameters().gradients()) <= bound);
        CHECK(found.loss(there).mean() == loss);
        CHECK(found.loss_and_gradient(there).mean() == loss);
        CHECK(same_bits(found.parameters().gradients().copy(Device::cpu()), gradient));
      }
    }
  }
}

TEST_CASE("a seed gives the same parameters on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const ModelOptions& options : kinds_for_gpus()) {
    SequenceModel<float> here(Device::cpu(), options, 4), there(*device, options, 4);
    CHECK(same_bits(there.parameters().values().copy(Device::cpu()), here.parameters().values()));
    CHECK(there.orthogonality_error().value() < 1e-5);
  }
}

TEST_CASE("generation on a GPU carries the state of the rollout", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const ModelOptions& options : kinds_for_gpus()) {
    if (!std::holds_alternative<EveryStep>(options.readout)) continue;
    SequenceModel<float> model(*device, options, 5);
    draw_initial_states(model);
    const Batch batch = batch_for(options, 4, 3);
    const TensorView<const float> outputs = model.forward(batch.copy(*device));
    Tensor<float> expected(outputs.shape());
    copy<float>(outputs, expected);
    SequenceModel<float>::Generator generator(model, 3);
    for (Index t = 0; t < 4; ++t) {
      const TensorView<const float> step = batch.reals(batch_names::features).empty()
                                               ? generator.step(batch.integers(batch_names::symbols)[t])
                                               : generator.step(batch.reals(batch_names::features)[t]);
      Tensor<float> found(step.shape());
      copy<float>(step, found);
      CAPTURE(t, options.input.index(), options.cells.size());
      CHECK(relative_error(found, expected.view()[t]) <= 10 * tolerance::rounding<float>(7));
    }
  }
}

TEST_CASE("a NaN beyond a sequence's length reaches no gradient on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const ModelOptions options{DenseInput{3}, {smooth_cell(6)}, EveryStep{4}};
  SequenceModel<float> model(*device, options, 5);
  Batch batch = batch_for(options, 6, 3);
  batch.integers(batch_names::lengths) = mixed_lengths(6, 3);
  model.loss_and_gradient(batch.copy(*device));
  const Tensor<float> expected = model.parameters().gradients().copy(Device::cpu());
  for (Index b = 0; b < 3; ++b) {
    for (Index t = batch.integers(batch_names::lengths)(b); t < 6; ++t) {
      batch.reals(batch_names::features)(t, b, 1) = std::numeric_limits<float>::quiet_NaN();
      batch.integers(batch_names::classes)(t, b) = 99;
    }
  }
  model.loss_and_gradient(batch.copy(*device));
  CHECK(same_bits(model.parameters().gradients().copy(Device::cpu()), expected));
}

TEST_CASE("a model on a GPU says what does not fit, at once or when somebody waits", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const ModelOptions tokens{TokenEmbedding{4, 3}, {smooth_cell(6)}, EveryStep{4}};
  SequenceModel<float> reader(*device, tokens);
  Batch batch = batch_for(tokens, 4, 2);
  CHECK_THROWS_AS(reader.forward(batch), DeviceError);
  batch.integers(batch_names::symbols)(1, 1) = 4;
  CHECK_THROWS_WITH(reader.loss(batch.copy(*device)), contains("token at position 3"));
  batch.integers(batch_names::symbols)(1, 1) = 0;
  batch.integers(batch_names::lengths) = mixed_lengths(4, 2);
  batch.integers(batch_names::lengths)(1) = 5;
  CHECK_THROWS_WITH(reader.loss(batch.copy(*device)), contains("length of sequence 1"));
  batch.integers(batch_names::lengths) = mixed_lengths(4, 3);
  CHECK_THROWS_AS(reader.forward(batch.copy(*device)), ShapeError);
}

TEST_CASE("a fault of one model on a GPU is not told as another's", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const ModelOptions tokens{TokenEmbedding{4, 3}, {smooth_cell(6)}, EveryStep{4}};
  SequenceModel<float> sound(*device, tokens);
  const Batch good = batch_for(tokens, 4, 2).copy(*device);
  const double expected = sound.loss(good).mean();
  {
    SequenceModel<float> faulty(*device, tokens);
    Batch batch = batch_for(tokens, 4, 2);
    batch.integers(batch_names::symbols)(1, 1) = 4;
    faulty.forward(batch.copy(*device));
    CHECK(sound.loss(good).mean() == expected);
    CHECK(sound.orthogonality_error().value() < 1e-5);
    CHECK_NOTHROW(sound.synchronize());
    const TemporaryFolder folder;
    CHECK_NOTHROW(save_model(folder.path() / "model.h5", sound));
    CHECK_THROWS_WITH(faulty.synchronize(), contains("token at position 3"));
    CHECK_NOTHROW(faulty.synchronize());  // told once
    faulty.forward(batch.copy(*device));
  }
  SequenceModel<float> next(*device, tokens);
  // The model was destroyed before its fault was thrown. A wait for the whole device throws it.
  CHECK(sound.loss(good).mean() == expected);
  CHECK_THROWS_WITH(synchronize(*device), contains("token at position 3"));
  CHECK_NOTHROW(synchronize(*device));
}

TEST_CASE("many short-lived models on a GPU find room for their faults", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const ModelOptions tokens{TokenEmbedding{4, 3}, {smooth_cell(2)}, EveryStep{2}};
  std::vector<std::unique_ptr<SequenceModel<float>>> models;
  for (int i = 0; i < 40; ++i) {
    models.push_back(std::make_unique<SequenceModel<float>>(*device, tokens));
    if (i % 2 == 1) models.erase(models.begin());
  }
  Batch batch = batch_for(tokens, 2, 1);
  batch.integers(batch_names::symbols)(0, 0) = 9;
  const Batch bad = batch.copy(*device);
  for (const auto& model : models) model->forward(bad);
  for (const auto& model : models) CHECK_THROWS_AS(model->synchronize(), ValueError);
  for (const auto& model : models) CHECK_NOTHROW(model->synchronize());
}

TEST_CASE("an input of more than four million numbers a step fits on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  if (is_emulated(*device)) {
    WARN("skipped: four million threads take the emulated device ten minutes");
    return;
  }
  // Rows of a grid were B K / 64 blocks, of which CUDA allows 65,535.
  const ModelOptions options{DenseInput{1}, {smooth_cell(1)}, LastStep{1}, Loss::mean_squared_error};
  const Index batch_size = 65'536 * 64 + 1;
  SequenceModel<float> model(*device, options);
  Batch batch;
  batch.reals(batch_names::features) = Tensor<float>(Shape{1, batch_size, 1});
  batch.reals(batch_names::values) = Tensor<float>(Shape{batch_size, 1});
  for (Index b = 0; b < batch_size; ++b)
    batch.reals(batch_names::features)(0, b, 0) = static_cast<float>(b % 7) - 3;
  SequenceModel<float> here(Device::cpu(), options);
  CHECK(model.loss(batch.copy(*device)).mean() == Approx(here.loss(batch).mean()).epsilon(1e-5));
}

TEST_CASE("a graph holds a model's step unless it waits or is very long", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const auto recordable = [&](const TransitionOptions& transition, RolloutWay way, Index length) {
    SequenceModel<float> model(Execution(*device, Precision::fp32, way),
                               {OneHot{3}, {smooth_cell(8, transition)}, EveryStep{2}});
    Batch batch(*device);
    batch.integers(batch_names::symbols).resize({length, 1});
    return model.recordable(batch);
  };
  const Cwy dense{.form = ReflectionForm::dense};
  CHECK(recordable(dense, RolloutWay::automatic, 1'000'000));
  // Four launches a step.
  CHECK(recordable(dense, RolloutWay::stepwise, 25'000));
  CHECK_FALSE(recordable(dense, RolloutWay::stepwise, 25'001));
  CHECK(recordable(HouseholderProduct{}, RolloutWay::stepwise, 50'000));
  CHECK_FALSE(recordable(HouseholderProduct{}, RolloutWay::stepwise, 50'001));
  CHECK_FALSE(recordable(HouseholderProduct{.rank_one_updates = true}, RolloutWay::stepwise, 1));
  CHECK_FALSE(recordable(ScaledCayley{}, RolloutWay::automatic, 1));
}
