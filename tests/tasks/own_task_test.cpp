// Tasks that a program registers are made from their names as those of orthornn are.

#include "orthornn/tasks/own_task.hpp"

#include <algorithm>
#include <initializer_list>

#include "orthornn/core/error.hpp"
#include "orthornn/layers/layer_options.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/task_options.hpp"
#include "orthornn/train/model_file.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/temporary_folder.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

class WeightedSum;

/// Adding, whose targets are multiplied by a weight.
struct WeightedSumOptions {
  using Made = WeightedSum;
  static constexpr const char* name = "weighted-sum";
  Index length = 6;
  double weight = 1;
  Index batch = 4;
  std::uint64_t seed = 1;
  static void fields(auto&& visit) {
    visit("length", &WeightedSumOptions::length, domain::count, "Steps of a sequence");
    visit("weight", &WeightedSumOptions::weight, domain::positive, "Factor of the targets");
  }
};

class WeightedSum final : public Task {
 public:
  explicit WeightedSum(const WeightedSumOptions& options)
      : options_(options),
        adding_({.length = options.length, .batch = options.batch, .seed = options.seed}) {}
  std::string name() const override { return WeightedSumOptions::name; }
  SequenceData data() const override { return adding_.data(); }
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  Index length() const override { return options_.length; }
  double baseline_loss() const override {
    return options_.weight * options_.weight * adding_.baseline_loss();
  }
  bool solved(const Evaluation&) const override { return false; }
  void training_batch(std::uint64_t step, Batch& batch) const override {
    adding_.training_batch(step, batch);
    weigh(batch);
  }
  Index evaluation_batches(HeldOut set) const override { return adding_.evaluation_batches(set); }
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override {
    adding_.evaluation_batch(set, number, batch);
    weigh(batch);
  }
  std::string config() const override { return config_of(OwnTask(options_)); }

 private:
  void weigh(Batch& batch) const {
    for (float& target : batch.reals(batch_names::values)) target *= static_cast<float>(options_.weight);
  }

  WeightedSumOptions options_;
  AddingTask adding_;
};

/// Its name is that of a task of orthornn, or of the other one.
template <int kind>
struct ImpostorTask : WeightedSumOptions {
  static constexpr const char* name = kind == 0 ? "copying" : "weighted-sum";
};

/// No test registers it.
struct StrangerOptions : WeightedSumOptions {
  static constexpr const char* name = "stranger-task";
};

/// Its field would overwrite the name in a config.
struct OverwritesName : WeightedSumOptions {
  static constexpr const char* name = "overwrites-name";
  static void fields(auto&& visit) { visit("task", &OverwritesName::weight, domain::positive, "A factor"); }
};

}  // namespace

TEST_CASE("a registered task is made from its config", "[tasks][own]") {
  const std::string config = R"({"task": "weighted-sum", "weight": 3})";
  check_says<ValueError>([] { make_task(config_of(OwnTask(StrangerOptions{})), {}); },
                         {"'task' is \"stranger-task\"; expected adding, copying, "});
  register_task<WeightedSumOptions>();
  register_task<WeightedSumOptions>();
  const std::vector<std::string> names = task_names();
  CHECK(std::ranges::count(names, "weighted-sum") == 1);

  const auto task = make_task(config, {.batch = 7, .seed = 5});
  CHECK(task->name() == "weighted-sum");
  CHECK(task->length() == 6);
  CHECK(task->batch_size() == 7);
  CHECK(task->seed() == 5);
  CHECK(task->baseline_loss() == 9 * AddingTask({.length = 6}).baseline_loss());
  CHECK(make_task(task->config(), {})->config() == task->config());
  CHECK(make_task(OwnTask(WeightedSumOptions{.weight = 3}), {})->config() == task->config());

  check_says<ValueError>([] { make_task(R"({"task": "weighted-sum", "delay": 3})", {}); },
                         {"task weighted-sum has no setting 'delay'; it has length, weight"});
  check_says<ValueError>([] { make_task(R"({"task": "weighted-sum", "weight": -1})", {}); },
                         {"task weighted-sum: ", "weight"});
  check_says<ValueError>(
      [&] {
        make_task(config, {.parts = {{"vocabulary", "a"}}});
      },
      {"parts were given, but the task weighted-sum has none"});
}

TEST_CASE("a task with the name of another or an unfit key is not registered", "[tasks][own]") {
  register_task<WeightedSumOptions>();
  check_says<ValueError>([] { register_task<ImpostorTask<0>>(); },
                         {"the name 'copying' is that of another task"});
  check_says<ValueError>([] { register_task<ImpostorTask<1>>(); },
                         {"the name 'weighted-sum' is that of another task"});
  check_says<ValueError>([] { register_task<OverwritesName>(); }, {"and none 'task'"});
}

TEST_CASE("a model of a registered task is evaluated from its file", "[tasks][own]") {
  register_task<WeightedSumOptions>();
  const TemporaryFolder folder;
  const WeightedSum task({.weight = 2});
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {OrthogonalCell{.hidden_size = 8}}));
  Trainer trainer(model, task);
  trainer.step();
  save_checkpoint(folder / "model.h5", trainer);
  ModelFileInfo info;
  const auto loaded = load_model(folder / "model.h5", {}, &info);
  const auto again = make_task(info.task_config, {.batch = info.batch, .seed = info.seed});
  CHECK(evaluate(*loaded, *again, HeldOut::test).loss == evaluate(model, task, HeldOut::test).loss);
}
