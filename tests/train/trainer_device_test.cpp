#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "nn/translation_batch.hpp"
#include "nn/translation_models.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/train/model_file.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/graph_launches.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"
#include "test_paths.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

ModelOptions small_model_for(const Task& task) {
  return model_for(task.data(), {OrthogonalCell{.hidden_size = 12}});
}

const TrainerOptions adam_by_cosine{.optimizer = Adam{.lr = 1e-2},
                                    .schedule = {.kind = Schedule::Kind::cosine, .total_steps = 10}};

/// Parameters and moments on the host.
Tensor<float> everything(Trainer& trainer) {
  const Index count = trainer.model().parameters().count();
  const auto state = trainer.optimizer().state();
  Tensor<float> all(Shape{static_cast<Index>(state.size()) + 1, count});
  copy<float>(trainer.model().parameters().values(), all.view()[0]);
  for (std::size_t i = 0; i < state.size(); ++i) {
    copy<float>(state[i].second, all.view()[static_cast<Index>(i) + 1]);
  }
  return all;
}

const auto go_on = [](const TrainingStep&) { return true; };

/// A model and its trainer.
struct AdamTraining {
  SequenceModel<float> model;
  Trainer trainer;

  AdamTraining(const Task& task, Device device, std::uint64_t seed = 3)
      : model(device, small_model_for(task), seed), trainer(model, task, adam_by_cosine) {}
};

/// Steps of a source, of an answer, and sentences.
struct TranslationShape {
  Index source, target, batch;
};

/// Random sentences; batch i has shape i, the last one from then on.
class ShapesInTurn final : public Task {
 public:
  ShapesInTurn(const EncoderDecoderOptions& model, std::vector<TranslationShape> shapes)
      : model_(model), shapes_(std::move(shapes)) {}

  std::string name() const override { return "shapes"; }
  SequenceData data() const override { return {.pairs = true}; }
  Index batch_size() const override { return shapes_[0].batch; }
  std::uint64_t seed() const override { return 1; }
  Index length() const override { return shapes_[0].target; }
  double baseline_loss() const override { return 1; }
  bool solved(const Evaluation&) const override { return false; }
  void training_batch(std::uint64_t step, Batch& batch) const override {
    const TranslationShape& shape = shapes_[std::min<std::size_t>(step, shapes_.size() - 1)];
    const Batch here = translation_batch(model_, shape.source, shape.target, shape.batch, true, step);
    using namespace batch_names;
    for (const std::string_view name : {source, source_lengths, target, target_lengths, classes}) {
      const TensorView<const std::int32_t> from = here.integers(name);
      Tensor<std::int32_t>& to = batch.integers(name);
      to.reserve(from.shape());
      copy<std::int32_t>(from, to);
    }
  }
  Index evaluation_batches(HeldOut) const override { return 1; }
  void evaluation_batch(HeldOut, Index, Batch& batch) const override { training_batch(1000, batch); }
  std::string config() const override { return "{}"; }

 private:
  EncoderDecoderOptions model_;
  std::vector<TranslationShape> shapes_;
};

}  // namespace

TEST_CASE("training on a GPU goes the way of the CPU, and the same way twice", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const CopyingTask copying({.delay = 5, .batch = 7});
  const AddingTask adding({.length = 9, .batch = 7});
  const int steps = is_emulated(*device) ? 2 : 5;
  for (const Task* task : {static_cast<const Task*>(&copying), static_cast<const Task*>(&adding)}) {
    AdamTraining here(*task, Device::cpu()), there(*task, *device), again(*task, *device);
    for (int i = 0; i < steps; ++i) {
      const TrainingStep expected = here.trainer.step(), found = there.trainer.step();
      CAPTURE(task->name(), i);
      CHECK(found.step == expected.step);
      CHECK(found.schedule_factor == expected.schedule_factor);
      CHECK(found.loss() == Approx(expected.loss()).epsilon(tolerance::trained_elsewhere));
      CHECK(found.gradient_norm() ==
            Approx(expected.gradient_norm()).epsilon(tolerance::gradient_trained_elsewhere));
    }
    again.trainer.run(steps, go_on);
    CHECK(same_bits(everything(again.trainer), everything(there.trainer)));
  }
}

TEST_CASE("every transition trains on a GPU as on the CPU, and names its divergence", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const CopyingTask task({.delay = 5, .batch = 7});
  for (const NamedTransition& named : all_transitions_on(*device, 12, 5)) {
    ModelOptions options = small_model_for(task);
    std::get<OrthogonalCell>(options.cells[0]).transition = named.options;
    TrainerOptions training = adam_by_cosine;
    if (std::holds_alternative<OrthogonalMatrix>(named.options)) {
      if (!has_decompositions(*device)) continue;
      training.optimizer = RgdAdam{};
    }
    SequenceModel<float> here(Device::cpu(), options), there(*device, options);
    Trainer expected(here, task, training), found(there, task, training);
    CAPTURE(named.name);
    const std::uint64_t graphs = graph_launches();
    for (int i = 0; i < 4; ++i) {
      CHECK(found.step().loss() == Approx(expected.step().loss()).epsilon(tolerance::trained_elsewhere));
    }
    Batch batch(*device);
    task.training_batch(0, batch);
    if (there.recordable(batch)) CHECK(graph_launches() == graphs + 3);  // all but the first
    ParameterSet<float>& parameters = there.parameters();
    Tensor<float> nan(parameters.value(0).shape());
    std::fill(nan.begin(), nan.end(), std::numeric_limits<float>::quiet_NaN());
    copy<float>(nan, parameters.value(0));
    CHECK_THROWS_WITH(found.run(9, go_on), contains("diverged at step 5"));
    CHECK(found.steps() == 4);
  }
}

TEST_CASE("a recorded step has the bits of one that runs directly", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const CopyingTask task({.delay = 5, .batch = 7});
  constexpr int steps = 6;
  AdamTraining recorded(task, *device);
  std::vector<double> losses;
  std::uint64_t before = graph_launches();
  for (int i = 0; i < steps; ++i) losses.push_back(recorded.trainer.step().loss());
  CHECK(graph_launches() == before + steps - 1);  // all but the first

  AdamTraining direct(task, *device);
  before = graph_launches();
  for (int i = 0; i < steps; ++i) {
    const Tensor<float> disturbance(Shape{1}, *device);  // memory changes: what was recorded no longer holds
    CHECK(direct.trainer.step().loss() == losses[static_cast<std::size_t>(i)]);
  }
  CHECK(graph_launches() == before);
  CHECK(same_bits(everything(recorded.trainer), everything(direct.trainer)));
}

TEST_CASE("each shape of a translation's batches has its recorded step", "[cuda][translation]") {
  const auto device = gpu();
  if (!device) return;
  EncoderDecoderOptions options = translation_models()[0];
  options.tied = true;
  options.dropout = 0.3;
  const TranslationShape a{4, 3, 5}, b{2, 6, 5}, c{3, 3, 2}, largest{9, 11, 6};
  const std::vector<TranslationShape> shapes = {a, b, c, a, largest, a, b, c, b, c, a};
  const ShapesInTurn task(options, shapes);
  const auto train = [&](bool directly) {
    EncoderDecoder<float> model(*device, options, 3);
    Trainer trainer(model, task, adam_by_cosine);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      // Memory changes: what was recorded no longer holds.
      std::optional<Tensor<float>> disturbance;
      if (directly) disturbance.emplace(Shape{1}, *device);
      const std::uint64_t before = graph_launches();
      trainer.step();
      // By then each shape has been met since the largest took memory.
      if (!directly && i >= 8) CHECK(graph_launches() == before + 1);
      if (!directly && i % 4 == 3) trainer.evaluate();
    }
    trainer.synchronize();
    return everything(trainer);
  };
  const Tensor<float> expected = train(true);
  CHECK(same_bits(train(false), expected));
}

TEST_CASE("a step after the second takes no memory of the GPU", "[cuda][alone]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (has_cuda_bodies) {
    const CopyingTask copying({.delay = 5, .batch = 7});
    const AddingTask adding({.length = 9, .batch = 7});
    for (const Task* task : {static_cast<const Task*>(&copying), static_cast<const Task*>(&adding)}) {
      AdamTraining training(*task, *device);
      training.trainer.run(2, go_on);
      const std::uint64_t before = cuda::memory_changes(*device);
      training.trainer.run(4, go_on);
      const std::size_t free = cuda::free_memory(*device);  // of which a graph takes some
      training.trainer.run(8, go_on);
      CHECK(cuda::memory_changes(*device) == before);
      CHECK(cuda::free_memory(*device) == free);
    }
  }
}

TEST_CASE("looking at every step keeps the recorded graph", "[cuda][alone]") {
  const auto device = gpu();
  if (!device) return;
  const CopyingTask task({.delay = 5, .batch = 7});
  AdamTraining training(task, *device);
  const auto look = [&] {
    training.trainer.step().loss();
    CHECK(training.model.orthogonality_error() < 1e-5);
  };
  // The first look takes memory, which costs what was recorded; the steps after the third are graphs.
  for (int i = 0; i < 3; ++i) look();
  const std::uint64_t before = graph_launches();
  for (int i = 0; i < 5; ++i) look();
  CHECK(graph_launches() == before + 5);
}

TEST_CASE("two processes that train from one seed on a GPU save the same bytes", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const TemporaryFolder folder;
  const auto train = [&](const char* name) {
    const std::string file = folder / name;
    const ProgramResult result = run_program({ORTHORNN_TRAIN_AND_SAVE, "cuda", file}, {}, folder.path());
    CAPTURE(result.errors);
    CHECK(result.exit_code == 0);
    return content(file);
  };
  const std::string first = train("first.h5");
  CHECK_FALSE(first.empty());
  CHECK(train("second.h5") == first);
}

TEST_CASE("evaluations between the steps change nothing on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const AddingTask task({.length = 9, .batch = 7});
  AdamTraining straight(task, *device), evaluated(task, *device);
  straight.trainer.run(7, go_on);
  for (int i = 0; i < 7; ++i) {
    evaluated.trainer.step();
    if (i % 3 == 2) {
      SequenceModel<float> here(Device::cpu(), small_model_for(task));
      copy<float>(evaluated.model.parameters().values(), here.parameters().values());
      CHECK(evaluated.trainer.evaluate().loss ==
            Approx(evaluate(here, task, HeldOut::validation).loss).epsilon(tolerance::loss_elsewhere));
    }
  }
  CHECK(same_bits(everything(evaluated.trainer), everything(straight.trainer)));
}

TEST_CASE("a larger batch between the steps changes nothing on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const CopyingTask task({.delay = 5, .batch = 7}), larger({.delay = 9, .batch = 40});
  AdamTraining straight(task, *device), disturbed(task, *device);
  straight.trainer.run(6, go_on);
  disturbed.trainer.run(3, go_on);
  Batch batch(*device);
  larger.training_batch(0, batch);
  disturbed.model.loss(batch);  // all buffers move
  // What a recorded step would still use has other contents now.
  const Tensor<float> taken(Shape{1 << 20}, *device);
  disturbed.trainer.run(6, go_on);
  CHECK(same_bits(everything(disturbed.trainer), everything(straight.trainer)));
}

TEST_CASE("a smaller batch between the steps leaves no shapes behind on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const CopyingTask task({.delay = 5, .batch = 7}), smaller({.delay = 3, .batch = 2});
  AdamTraining straight(task, *device), disturbed(task, *device);
  straight.trainer.run(7, go_on);
  Batch batch(*device);
  smaller.training_batch(0, batch);
  const auto outputs_of = [](AdamTraining& training) { return training.model.outputs().shape(); };
  disturbed.trainer.run(3, go_on);
  for (int steps = 4; steps <= 7; ++steps) {
    if (steps % 2 == 0) {
      disturbed.model.loss(batch);  // allocates nothing, so that what was recorded still holds on the device
      CHECK(outputs_of(disturbed) != outputs_of(straight));
    }
    disturbed.trainer.run(steps, go_on);
    CHECK(outputs_of(disturbed) == outputs_of(straight));
  }
  CHECK(same_bits(everything(disturbed.trainer), everything(straight.trainer)));
}

TEST_CASE("a training goes from GPU to CPU and back by its file", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  const CopyingTask task({.delay = 5, .batch = 7});
  AdamTraining uninterrupted(task, *device), first(task, *device), same(task, *device, 99),
      here(task, Device::cpu(), 99), back(task, *device, 98);
  uninterrupted.trainer.run(8, go_on);
  first.trainer.run(4, go_on);
  save_checkpoint(file, first.trainer);
  restore(file, same.trainer);
  same.trainer.run(8, go_on);
  CHECK(same_bits(everything(same.trainer), everything(uninterrupted.trainer)));

  restore(file, here.trainer);
  CHECK(here.trainer.steps() == 4);
  CHECK(same_bits(everything(here.trainer), everything(first.trainer)));
  here.trainer.run(6, go_on);
  save_checkpoint(file, here.trainer);
  restore(file, back.trainer);
  CHECK(same_bits(everything(back.trainer), everything(here.trainer)));
  back.trainer.run(8, go_on);
  CHECK(relative_error(back.model.parameters().values().copy(Device::cpu()),
                       uninterrupted.model.parameters().values().copy(Device::cpu())) <
        tolerance::trained_elsewhere);
  const auto loaded = load_model(file, *device);
  CHECK(same_bits(loaded->parameters().values().copy(Device::cpu()), here.model.parameters().values()));
}

TEST_CASE("a training on a GPU that diverges is as it was before the step that it names", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const TemporaryFolder folder;
  const CopyingTask task({.delay = 3, .batch = 4});
  struct Harm {
    const char* parameter;
    float value;
    const char* message;
  };
  for (const Harm& harm : {Harm{"readout/bias", std::numeric_limits<float>::infinity(), "loss"},
                           Harm{"cell/reflection_vectors", 0, "reflection vector 0 is zero"}}) {
    AdamTraining training(task, *device);
    Trainer& trainer = training.trainer;
    trainer.run(2, go_on);
    ParameterSet<float>& parameters = training.model.parameters();
    const auto harmed = parameters.value(parameters.find(harm.parameter));
    Tensor<float> row(Shape{std::min<Index>(harmed.size(), 12)});
    std::fill(row.begin(), row.end(), harm.value);
    copy<float>(row, TensorView<float>(harmed.data(), row.shape(), harmed.device()));
    const Tensor<float> before = everything(trainer);
    CAPTURE(harm.parameter);
    trainer.step();
    trainer.step();
    const TrainingStep last = trainer.step();  // the host is three steps ahead
    CHECK_THROWS_WITH(last.loss(), contains("diverged at step 3") && contains(harm.message));
    CHECK(trainer.steps() == 2);
    CHECK(trainer.optimizer().steps() == 2);
    CHECK(same_bits(everything(trainer), before));
    // It goes on from there as the CPU would: into the same wall.
    CHECK_THROWS_WITH(trainer.run(9, go_on), contains("diverged at step 3"));
    trainer.step();
    CHECK_THROWS_WITH(trainer.evaluate(), contains("diverged at step 3"));
    trainer.step();
    CHECK_THROWS_WITH(save_checkpoint(folder.path() / "model.h5", trainer), contains("diverged at step 3"));
    CHECK(same_bits(everything(trainer), before));
  }
}

TEST_CASE("a GPU refuses parameters that are no transition with the file's name", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  SequenceModel<float> model(Device::cpu(), {OneHot{3}, {OrthogonalCell{.hidden_size = 4}}, EveryStep{2}});
  const TensorView<float> vectors = model.parameters().value(0);
  std::fill(vectors[2].begin(), vectors[2].end(), 0.0F);
  save_model(file, model);
  CHECK_THROWS_WITH(load_model(file, *device),
                    contains("model.h5") && contains("reflection vector 2 is zero"));
}

TEST_CASE("the numbers of a step on a GPU are asked for before the next one", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const CopyingTask task({.delay = 3, .batch = 4});
  AdamTraining training(task, *device);
  const TrainingStep first = training.trainer.step();
  const double loss = first.loss();
  const TrainingStep second = training.trainer.step();
  training.trainer.step();
  CHECK(first.loss() == loss);
  CHECK_THROWS_WITH(second.loss(), contains("step 2 are gone"));
}

TEST_CASE("a recorded training draws other dropout masks in each step, those of the CPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const CopyingTask task({.delay = 5, .batch = 7});
  const ModelOptions options = model_for(task.data(), {Gru{12}, Dropout{0.5}, Linear{8}, Dropout{0.25}});
  const auto train = [&](Device where, bool disturbed) {
    SequenceModel<float> model(where, options, 3);
    Trainer trainer(model, task, adam_by_cosine);
    for (int i = 0; i < 5; ++i) {
      trainer.step();
      trainer.synchronize();
      // Evaluation has no noise, and the graph of the next step must still have its own.
      if (disturbed) evaluate(model, task, HeldOut::validation);
    }
    return model.parameters().values().copy(Device::cpu());
  };
  const Tensor<float> expected = train(Device::cpu(), false), found = train(*device, false);
  // As of trainings without dropout.
  CHECK(relative_error(found, expected) <= tolerance::trained_elsewhere);
  CHECK(same_bits(train(*device, true), found));
}

TEST_CASE("steps of several batches on a GPU go the way of the CPU, recorded or not", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const CopyingTask task({.delay = 5, .batch = 7});
  // A step of two has no batch between the first and the last.
  for (const Index batches : {2, 4}) {
    CAPTURE(batches);
    TrainerOptions options = adam_by_cosine;
    options.accumulate = batches;
    SequenceModel<float> here(Device::cpu(), small_model_for(task), 3),
        there(*device, small_model_for(task), 3), straight(*device, small_model_for(task), 3);
    Trainer expected(here, task, options), recorded(there, task, options), direct(straight, task, options);
    const std::uint64_t before = graph_launches();
    for (int i = 0; i < 5; ++i) {
      const TrainingStep of_cpu = expected.step(), of_gpu = recorded.step();
      CHECK(of_gpu.loss() == Approx(of_cpu.loss()).epsilon(tolerance::trained_elsewhere));
      CHECK(of_gpu.gradient_norm() ==
            Approx(of_cpu.gradient_norm()).epsilon(tolerance::gradient_trained_elsewhere));
    }
    CHECK(graph_launches() > before + 2 * static_cast<std::uint64_t>(batches));
    for (int i = 0; i < 5; ++i) {
      const Tensor<float> disturbance(Shape{1}, *device);  // what was recorded no longer holds
      direct.step();
    }
    CHECK(same_bits(everything(recorded), everything(direct)));
  }
}
