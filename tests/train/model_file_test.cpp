#include "orthornn/train/model_file.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>

#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/version.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

ModelOptions unusual_model() {
  return {.input = TokenEmbedding{7, 3},
          .cells = {OrthogonalCell{.hidden_size = 6,
                                   .transition = Cwy{2, Init::haar, ReflectionForm::factored},
                                   .activation = Activation::abs,
                                   .input_matrix = InputMatrix::stiefel},
                    OrthogonalCell{.hidden_size = 5, .transition = HouseholderProduct{3, Init::normal}},
                    OrthogonalCell{.hidden_size = 4, .transition = ScaledCayley{2, Init::cayley}},
                    OrthogonalCell{.hidden_size = 4, .transition = MatrixExponential{}},
                    OrthogonalCell{
                        .hidden_size = 3, .transition = Unconstrained{}, .activation = Activation::relu}},
          .readout = LastStep{2},
          .loss = Loss::mean_squared_error};
}

/// A task of a program's own, with settings that orthornn does not know.
class OwnTask final : public Task {
 public:
  std::string name() const override { return its_name; }
  SequenceData data() const override { return copying_.data(); }
  Index batch_size() const override { return 3; }
  std::uint64_t seed() const override { return 5; }
  Index length() const override { return copying_.length(); }
  double baseline_loss() const override { return 1; }
  bool solved(const Evaluation&) const override { return false; }
  void training_batch(std::uint64_t step, Batch& batch) const override {
    copying_.training_batch(step, batch);
  }
  Index evaluation_batches(HeldOut) const override { return 1; }
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override {
    copying_.evaluation_batch(set, number, batch);
  }
  std::string config() const override { return R"({"colour": "red"})"; }
  ConstTensorView<std::int32_t> input_order() const override {
    return {order.data(), Shape{static_cast<Index>(order.size())}};
  }

  std::string its_name = "own";
  std::vector<std::int32_t> order;

 private:
  CopyingTask copying_{{.delay = 2, .batch = 3, .seed = 5}};
};

}  // namespace

TEST_CASE("a best result that is not finite is none", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  const CopyingTask task({.delay = 2, .batch = 3, .seed = 5});
  const ModelOptions options = model_for(task.data(), {OrthogonalCell{.hidden_size = 4}});
  SequenceModel<float> model(Device::cpu(), options);
  Trainer trainer(model, task);
  for (const double loss :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    trainer.set_best(BestResult{loss, 0});
    save_checkpoint(file, trainer);
    CHECK_FALSE(read_model_info(file).best.has_value());
    restore(file, trainer);
    CHECK_FALSE(trainer.best().has_value());
    const double sound = trainer.evaluate().loss;
    CHECK(trainer.best()->loss == sound);
  }
}

TEST_CASE("a model that was trained on a program's own task is loaded and resumed", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  OwnTask task;
  task.order = {1, 0};
  const ModelOptions options = model_for(task.data(), {OrthogonalCell{.hidden_size = 4}});
  SequenceModel<float> model(Device::cpu(), options);
  Trainer trainer(model, task);
  trainer.step();
  save_checkpoint(file, trainer);
  CHECK(read_model_info(file).task_config == R"({"colour":"red"})");
  SequenceModel<float> other(Device::cpu(), options, Undrawn{});
  Trainer resumed(other, task);
  restore(file, resumed);
  CHECK(equal(other.parameters().values(), model.parameters().values()));
  CHECK(resumed.steps() == 1);
}

TEST_CASE("a model file gives back the model", "[train]") {
  const TemporaryFolder folder;
  const SequenceModel<float> model(Device::cpu(), unusual_model(), 11);
  save_model(folder.path() / "model.h5", model);
  const auto loaded = load_model(folder.path() / "model.h5");
  CHECK(to_json(loaded->options()) == to_json(model.options()));
  CHECK(equal(loaded->parameters().values(), model.parameters().values()));
}

TEST_CASE("options survive the journey through JSON", "[train]") {
  const std::string model = to_json(unusual_model());
  CHECK(to_json(model_options_from_json(model)) == model);
  for (const OptimizerOptions& optimizer :
       {OptimizerOptions(Sgd{.lr = 0.3, .lr_orthogonal = 0, .momentum = 0.5, .weight_decay = 0.25}),
        OptimizerOptions(RmsProp{.lr = 0.1, .decay = 0.5}), OptimizerOptions(Adam{.beta1 = 0.5}),
        OptimizerOptions(AdamW{.lr_orthogonal = 0.125, .weight_decay = 0.5})}) {
    const std::string text = to_json(TrainerOptions{
        .optimizer = optimizer, .schedule = {.kind = Schedule::Kind::step, .step_every = 5}, .clip = 0.75});
    CHECK(to_json(trainer_options_from_json(text)) == text);
  }
  CHECK_THROWS_AS(model_options_from_json("{}"), ValueError);
  CHECK_THROWS_AS(model_options_from_json("not json"), ValueError);
}

TEST_CASE("a model file is what include/orthornn/io/README.md says", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  const CopyingTask task({.delay = 2, .batch = 3, .seed = 5});
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {OrthogonalCell{.hidden_size = 4}}));
  Trainer trainer(model, task);
  trainer.step();
  trainer.evaluate();
  save_checkpoint(file, trainer);
  const Hdf5Reader reader(file);
  CHECK(reader.string_attribute("/", "format") == "orthornn-model");
  CHECK(reader.int_attribute("/", "format_version") == 2);
  CHECK(reader.string_attribute("/", "library_version") == version());
  CHECK(reader.string_attribute("/", "task") == "copying");
  CHECK(reader.names("/") == std::vector<std::string>{"optimizer", "parameters", "task", "training"});
  CHECK(reader.shape("parameters/cell/reflection_vectors") == Shape{4, 4});
  CHECK(reader.shape("parameters/readout/weight") == Shape{9, 4});
  CHECK(reader.shape("optimizer/square_average/cell/input_weights") == Shape{4, 10});
  CHECK(reader.int_attribute("training", "step") == 1);
  CHECK(reader.int_attribute("training", "seed") == 5);
  CHECK(reader.double_attribute("training", "best_metric") == trainer.best()->loss);
}

TEST_CASE("a checkpoint in several files is one in each", "[train]") {
  const TemporaryFolder folder;
  const CopyingTask task({.delay = 2, .batch = 3, .seed = 5});
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {OrthogonalCell{.hidden_size = 4}}));
  Trainer trainer(model, task);
  trainer.step();
  const std::filesystem::path single = folder.path() / "single.h5";
  save_checkpoint(single, trainer);
  const std::array files{folder.path() / "first.h5", folder.path() / "second.h5"};
  save_checkpoint(files, trainer);
  for (const auto& file : files) CHECK((content(file) == content(single)));

  // The second cannot be written.
  trainer.step();
  const std::array some{files[0], folder.path() / "absent" / "file.h5", files[1]};
  CHECK_THROWS_WITH(save_checkpoint(some, trainer), contains("absent"));
  CHECK(read_model_info(files[0]).steps == 2);
  CHECK(read_model_info(files[1]).steps == 1);
}

TEST_CASE("files that are no model of ours are refused with the reason", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  const auto write = [&](const char* format, int format_version, const std::string& config) {
    Hdf5Writer writer;
    writer.attribute("/", "format", format);
    writer.attribute("/", "format_version", format_version);
    writer.attribute("/", "library_version", "9.9.9");
    writer.attribute("/", "task", "");
    writer.attribute("/", "config", config);
    writer.commit(file);
  };
  write("somebody-else's", 1, "{}");
  CHECK_THROWS_WITH(load_model(file), contains("no orthornn model"));
  write("orthornn-model", 4, "{}");
  CHECK_THROWS_WITH(load_model(file), contains("version 4") && contains("newer"));
  write("orthornn-model", 0, "{}");
  CHECK_THROWS_AS(load_model(file), FileError);
  write("orthornn-model", 1, "{}");
  CHECK_THROWS_WITH(load_model(file), contains("config"));
  const SequenceModel<float> model(Device::cpu(),
                                   {OneHot{3}, {OrthogonalCell{.hidden_size = 4}}, EveryStep{2}});
  write("orthornn-model", 2, "{\"model\":" + to_json(model.options()) + "}");
  CHECK_THROWS_WITH(load_model(file), contains("parameters/cell/reflection_vectors") && contains("[4, 4]"));
  CHECK_THROWS_AS(load_model(folder.path() / "absent.h5"), FileError);
}

TEST_CASE("parameters that are no transition are refused with the file's name", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  SequenceModel<float> model(Device::cpu(), {OneHot{3}, {OrthogonalCell{.hidden_size = 4}}, EveryStep{2}});
  ParameterSet<float>& parameters = model.parameters();
  const TensorView<float> vectors = parameters.value(parameters.find("cell/reflection_vectors"));
  std::fill(vectors[2].begin(), vectors[2].end(), 0.0F);
  save_model(file, model);
  CHECK_THROWS_WITH(load_model(file), contains("model.h5") && contains("reflection vector 2 is zero"));
}

TEST_CASE("parameters that are not finite are neither saved nor loaded", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  SequenceModel<float> model(Device::cpu(), {OneHot{3}, {OrthogonalCell{.hidden_size = 4}}, EveryStep{2}});
  save_model(file, model);
  ParameterSet<float>& parameters = model.parameters();
  parameters.value(parameters.find("readout/bias"))(1) = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_WITH(save_model(file, model), contains("readout/bias") && contains("not finite"));
  CHECK_NOTHROW(load_model(file));

  Hdf5Writer writer;
  writer.attribute("/", "format", "orthornn-model");
  writer.attribute("/", "format_version", 2);
  writer.attribute("/", "library_version", "0");
  writer.attribute("/", "task", "");
  writer.attribute("/", "config", "{\"model\":" + to_json(model.options()) + "}");
  for (Index i = 0; const Parameter& parameter : parameters.list()) {
    writer.dataset("parameters/" + parameter.name, std::as_const(parameters).value(i++));
  }
  writer.commit(file);
  CHECK_THROWS_WITH(load_model(file),
                    contains("model.h5") && contains("readout/bias") && contains("not finite"));
}

TEST_CASE("a checkpoint that could not be resumed is not written", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  const CopyingTask task({.delay = 2, .batch = 3});
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {OrthogonalCell{.hidden_size = 4}}));
  Trainer trainer(model, task);
  trainer.step();
  save_checkpoint(file, trainer);
  const std::string sound = content(file);
  SECTION("a moment that is not finite") {
    trainer.optimizer().state().front().second(7) = std::numeric_limits<float>::infinity();
    CHECK_THROWS_WITH(
        save_checkpoint(file, trainer),
        contains("'optimizer/square_average/cell/reflection_vectors'") && contains("not finite"));
    CHECK_THROWS_AS(save_checkpoint(file, trainer), DivergenceError);
  }
  SECTION("a task of a program's own whose order or name a load would refuse") {
    OwnTask own;
    Trainer own_trainer(model, own);
    own.order = {0, 2};
    CHECK_THROWS_WITH(save_checkpoint(file, own_trainer), contains("not a permutation"));
    own.order = {1, 0};
    own.its_name = "a name\n";
    CHECK_THROWS_WITH(save_checkpoint(file, own_trainer), contains("printable"));
    own.its_name = "adding";
    CHECK_THROWS_WITH(save_checkpoint(file, own_trainer),
                      contains("'task' is missing") && !contains("diverged"));
  }
  CHECK((content(file) == sound));
}

TEST_CASE("the layout of a model's parameters is known without memory for them", "[train]") {
  const SequenceModel<float> model(Device::cpu(), unusual_model(), 11);
  const ParameterSet<float> layout = parameter_layout<float>(model.options());
  CHECK(layout.values().empty());
  REQUIRE(layout.list().size() == model.parameters().list().size());
  for (std::size_t i = 0; i < layout.list().size(); ++i) {
    const Parameter &found = layout.list()[i], &expected = model.parameters().list()[i];
    CHECK(found.name == expected.name);
    CHECK(found.shape == expected.shape);
    CHECK((found.kind == expected.kind));
    CHECK(found.offset == expected.offset);
  }
  const SequenceModel<float> undrawn(Device::cpu(), unusual_model(), Undrawn{});
  CHECK(std::ranges::all_of(undrawn.parameters().values(), [](float x) { return x == 0; }));
}

TEST_CASE("a training is resumed only with its own task, seed and batch, or left as it was", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  const CopyingTask task({.delay = 2, .batch = 3, .seed = 5});
  const ModelOptions options = model_for(task.data(), {OrthogonalCell{.hidden_size = 4}});
  SequenceModel<float> model(Device::cpu(), options);
  Trainer trainer(model, task);
  trainer.step();
  save_checkpoint(file, trainer);
  const auto refusal = [&](const CopyingOptions& other) {
    const CopyingTask other_task(other);
    SequenceModel<float> fresh(Device::cpu(), options, 9);
    const Tensor<float> before = fresh.parameters().values().copy();
    Trainer resumed(fresh, other_task);
    std::string message = "none";
    try {
      restore(file, resumed);
    } catch (const FileError& error) {
      message = error.what();
      CHECK(equal(fresh.parameters().values(), before));
      CHECK(resumed.steps() == 0);
    }
    return message;
  };
  CHECK(refusal({.delay = 2, .batch = 3, .seed = 5}) == "none");
  CHECK_THAT(refusal({.delay = 3, .batch = 3, .seed = 5}), contains("delay is 2 there and 3 here"));
  CHECK_THAT(refusal({.delay = 2, .batch = 4, .seed = 5}), contains("batch is 3 there and 4 here"));
  CHECK_THAT(refusal({.delay = 2, .batch = 3, .seed = 6}), contains("seed is 5 there and 6 here"));
}

TEST_CASE("a training is not resumed from a file of another one", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  const CopyingTask task({.delay = 2, .batch = 3});
  const auto with = [&](Index hidden) {
    return model_for(task.data(), {OrthogonalCell{.hidden_size = hidden}});
  };
  SequenceModel<float> model(Device::cpu(), with(4));
  Trainer trainer(model, task);
  save_checkpoint(file, trainer);
  SequenceModel<float> larger(Device::cpu(), with(5));
  Trainer other(larger, task);
  CHECK_THROWS_WITH(restore(file, other), contains("another model"));
  Trainer adam(model, task, {.optimizer = Adam{}});
  CHECK_THROWS_WITH(restore(file, adam), contains("rmsprop") && contains("adam"));
  save_model(file, model);
  CHECK_THROWS_WITH(restore(file, trainer), contains("without its training state"));
}
