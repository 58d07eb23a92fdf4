#include <cstdlib>
#include <filesystem>
#include <initializer_list>

#include "orthornn/layers/delta_product_blocks.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/tasks/language_task.hpp"
#include "orthornn/tasks/mnist_task.hpp"
#include "orthornn/tasks/video_task.hpp"
#include "orthornn/tasks/words_task.hpp"
#include "orthornn/train/recipe.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

using namespace orthornn;

namespace {

/// The recipe of the task for an orthogonal cell.
Recipe recipe_of(const Task& task) { return recipe_for(task, {OrthogonalCell{}}); }

ModelOptions model_of(const Task& task) {
  const Recipe recipe = recipe_of(task);
  return model_for(task.data(), {OrthogonalCell{.hidden_size = recipe.hidden_size,
                                                .transition = Cwy{.init = recipe.init}}});
}

TrainerOptions options_of(const Recipe& recipe, std::int64_t steps) {
  const double lr = recipe.learning_rate, lr_orthogonal = recipe.learning_rate_orthogonal;
  OptimizerOptions optimizer = RmsProp{.lr = lr, .lr_orthogonal = lr_orthogonal};
  if (recipe.optimizer == "adam") optimizer = Adam{.lr = lr, .lr_orthogonal = lr_orthogonal};
  return {.optimizer = optimizer,
          .schedule = {.kind = Schedule::Kind::cosine, .total_steps = steps},
          .clip = recipe.clip};
}

/// Folder with the real MNIST files, or nothing.
std::filesystem::path mnist_folder() {
  const char* named = std::getenv("ORTHORNN_MNIST_DIR");
  const std::filesystem::path source = ORTHORNN_SOURCE_DIR;
  for (const std::filesystem::path& folder :
       {std::filesystem::path(named ? named : ""), source / "data/mnist", source / "../shared/data/mnist"}) {
    if (!folder.empty() && std::filesystem::exists(folder / "train-images-idx3-ubyte.gz")) return folder;
  }
  return {};
}

/// Solved within 2000 steps, and mostly right on 64 steps.
void check_learns(Trainer& trainer, Model<float>& model, const WordsTask& task) {
  Evaluation result;
  while (trainer.steps() < 2000 && !task.solved(result)) {
    trainer.run(trainer.steps() + 100, [](const TrainingStep&) { return true; });
    result = trainer.evaluate();
  }
  CAPTURE(trainer.steps(), result.loss);
  CHECK(task.solved(result));
  CHECK(evaluate(model, *task.with_length(64, 64), HeldOut::test).metric("accuracy") > 0.9);
}

}  // namespace

TEST_CASE("copying over 200 steps falls below a tenth of the guesser's loss, from three seeds",
          "[train][slow]") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const CopyingTask task({.delay = 200, .batch = 128, .seed = seed});
    SequenceModel<float> model(Device::cpu(), model_of(task), seed);
    const Recipe recipe = recipe_of(task);
    Trainer trainer(model, task, options_of(recipe, recipe.steps));
    Evaluation result;
    while (trainer.steps() < recipe.steps) {
      trainer.run(trainer.steps() + 50, [](const TrainingStep&) { return true; });
      result = trainer.evaluate();
      if (result.loss < task.baseline_loss() / 10) break;
    }
    CAPTURE(seed, trainer.steps(), result.loss, task.baseline_loss());
    CHECK(result.loss < task.baseline_loss() / 10);
  }
}

TEST_CASE("a DeltaProduct network learns to add two numbers of thirty", "[train][slow]") {
  const AddingTask task({.length = 30, .batch = 64});
  const DeltaProductCell cell{.hidden_size = 32, .heads = 2, .key_size = 8, .value_size = 8};
  std::vector<LayerOptions> layers = delta_product_blocks(cell, GatedMlp{}, 1);
  layers.insert(layers.begin(), Linear{32});
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), layers));
  const std::int64_t steps = 250;
  Trainer trainer(model, task,
                  {.optimizer = Adam{.lr = 3e-3},
                   .schedule = {.kind = Schedule::Kind::cosine, .total_steps = steps},
                   .clip = 1});
  trainer.run(steps, [](const TrainingStep&) { return true; });
  CHECK(trainer.evaluate().loss < 0.01);  // a guesser has 0.167
}

// Measured: it is solved after 300 steps.
TEST_CASE("ConvNERU learns where a square moves", "[train][slow]") {
  const VideoTask task;
  const ConvNeru cell;
  const Recipe recipe = recipe_for(task, {cell});
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {cell}));
  Trainer trainer(model, task, options_of(recipe, recipe.steps));
  Evaluation result = trainer.evaluate();
  while (trainer.steps() < 600 && !task.solved(result)) {
    trainer.run(trainer.steps() + 100, [](const TrainingStep&) { return true; });
    result = trainer.evaluate();
  }
  CAPTURE(trainer.steps(), result.loss);
  CHECK(task.solved(result));
  CHECK(*model.orthogonality_error() < 1e-5);
}

// Measured: four of the seeds 1 to 5 solve it in 100 to 300 steps, and are right at every step of 64.
TEST_CASE("a network with factors of RWKV-7 learns the parity of 32 symbols, and keeps right beyond",
          "[train][slow]") {
  const WordsTask task({.group = "Z2", .length = 32, .batch = 64});
  const DeltaProductCell cell{
      .hidden_size = 32, .heads = 2, .key_size = 8, .value_size = 8, .factor = DeltaFactorKind::rwkv7};
  ModelOptions options = model_for(task.data(), delta_product_blocks(cell, GatedMlp{}, 1));
  options.input = TokenEmbedding{.tokens = task.data().symbols, .size = 32};
  SequenceModel<float> model(Device::cpu(), options);
  Trainer trainer(model, task, {.optimizer = Adam{.lr = 5e-3}, .clip = 1});
  check_learns(trainer, model, task);
}

TEST_CASE("a short training on the real MNIST names 90 of 100 digits", "[train][slow]") {
  const std::filesystem::path folder = mnist_folder();
  if (folder.empty()) {
    WARN(
        "skipped: no MNIST files; tools/fetch-data mnist brings them, ORTHORNN_MNIST_DIR names another "
        "folder");
    return;
  }
  const std::int64_t steps = 3500;  // two passes over the data
  const MnistTask task({.data = folder, .batch = 32});
  SequenceModel<float> model(Device::cpu(), model_of(task));
  Trainer trainer(model, task, options_of(recipe_of(task), steps));
  trainer.run(steps, [](const TrainingStep&) { return true; });
  const Evaluation result = evaluate(model, task, HeldOut::test);
  CAPTURE(result.loss);
  CHECK(*result.metric("accuracy") > 0.9);
}

TEST_CASE("a GRU learns the words of S3 over 32 steps, and keeps right beyond", "[train][slow]") {
  const WordsTask task({.group = "S3", .length = 32, .batch = 64});
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {Gru{.hidden_size = 64}}));
  Trainer trainer(model, task, {.optimizer = Adam{.lr = 5e-3}});
  check_learns(trainer, model, task);
}
