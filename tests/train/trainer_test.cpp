#include "orthornn/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/tasks/video_task.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

ModelOptions model_for(const Task& task, Index hidden, TransitionOptions transition = Cwy{}) {
  return model_for(task.data(), {OrthogonalCell{.hidden_size = hidden, .transition = transition}});
}

}  // namespace

TEST_CASE("every transition learns to copy over a few steps", "[train][long]") {
  const CopyingTask task({.delay = 5, .batch = 32});
  for (const TransitionOptions& transition :
       {TransitionOptions(Cwy{}), TransitionOptions(Cwy{.reflections = 32, .form = ReflectionForm::factored}),
        TransitionOptions(HouseholderProduct{}), TransitionOptions(ScaledCayley{}),
        TransitionOptions(MatrixExponential{}), TransitionOptions(WeightNormalization{}),
        TransitionOptions(Unconstrained{})}) {
    SequenceModel<float> model(Device::cpu(), model_for(task, 48, transition));
    Trainer trainer(model, task, {.optimizer = RmsProp{.lr = 2e-3}});
    const double before = trainer.evaluate().loss;
    trainer.run(300, [](const TrainingStep&) { return true; });
    const Evaluation after = trainer.evaluate();
    CAPTURE(name_of(transition), before, after.loss, task.baseline_loss());
    CHECK(after.loss < task.baseline_loss() / 2);
    CHECK(trainer.best()->loss == after.loss);
    CHECK(trainer.best()->step == 300);
    if (!std::holds_alternative<Unconstrained>(transition)) CHECK(model.orthogonality_error() < 1e-5);
  }
}

TEST_CASE("a matrix learns to copy by Riemannian steps, which keep it orthogonal", "[train][long]") {
  const CopyingTask task({.delay = 5, .batch = 32});
  for (const OptimizerOptions& optimizer :
       {OptimizerOptions(Rgd{.lr = 0.05, .lr_orthogonal = 0.05, .momentum = 0.9}),
        OptimizerOptions(RgdAdam{.retraction = StiefelSgd::Retraction::cayley, .lr = 2e-3})}) {
    SequenceModel<float> model(Device::cpu(), model_for(task, 48, OrthogonalMatrix{}));
    const Tensor<float> start = model.parameters().values().copy();
    Trainer trainer(model, task, {.optimizer = optimizer});
    trainer.run(300, [](const TrainingStep&) { return true; });
    const Evaluation after = trainer.evaluate();
    CAPTURE(name_of(optimizer), after.loss, task.baseline_loss());
    CHECK(after.loss < task.baseline_loss() / 2);
    CHECK(model.orthogonality_error() < 1e-6);
    // The matrix itself has moved.
    Index moved = 0;
    for (Index i = 0; i < 48 * 48; ++i) moved += model.parameters().values()(i) != start(i);
    CHECK(moved > 48 * 48 / 2);
  }
  SequenceModel<float> model(Device::cpu(), model_for(task, 48, OrthogonalMatrix{}));
  check_says<ValueError>([&] { Trainer(model, task, {.optimizer = Adam{}}); },
                         {"adam", "cell/stiefel_matrix", "rgd or rgd-adam"});
}

TEST_CASE("a model that sees the answer of a forecast is neither trained nor evaluated", "[train]") {
  const VideoTask task({.frames = 3, .batch = 2});
  const auto model_of = [](const LayerOptions& layer) {
    return ModelOptions{DenseInput{64}, {layer}, EveryStep{64}, Loss::absolute_and_squared_error};
  };
  // Such options do not pass through model_for, which says the same.
  for (const LayerOptions& ahead : {LayerOptions(Bidirectional{{Gru{2}}}),
                                    LayerOptions(Residual{{Bidirectional{{Gru{2}}}, Linear{64}}})}) {
    SequenceModel<float> model(Device::cpu(), model_of(ahead));
    const std::string said = error_message<ValueError>([&] { model_for(task.data(), {ahead}); });
    CHECK_THAT(said, contains("sees the targets"));
    CHECK(error_message<ValueError>([&] { Trainer(model, task); }) == said);
    CHECK(error_message<ValueError>([&] { evaluate(model, task, HeldOut::test); }) == said);
  }
  SequenceModel<float> forward(Device::cpu(), model_of(Gru{2}));
  CHECK_NOTHROW(Trainer(forward, task).step());
}

TEST_CASE("a training that is saved and restored has the bits of one that was not", "[train]") {
  const TemporaryFolder folder;
  const AddingTask task({.length = 7, .batch = 8, .seed = 3});
  const TrainerOptions options{.optimizer = Adam{},
                               .schedule = {.kind = Schedule::Kind::cosine, .total_steps = 10}};
  const auto everything = [](Trainer& trainer) {
    std::vector<float> all(trainer.model().parameters().values().begin(),
                           trainer.model().parameters().values().end());
    for (const auto& [name, moment] : trainer.optimizer().state())
      all.insert(all.end(), moment.begin(), moment.end());
    return all;
  };
  const auto go_on = [](const TrainingStep&) { return true; };

  SequenceModel<float> straight(Device::cpu(), model_for(task, 12), 3);
  Trainer uninterrupted(straight, task, options);
  uninterrupted.run(10, go_on);

  SequenceModel<float> first(Device::cpu(), model_for(task, 12), 3);
  Trainer before(first, task, options);
  before.run(5, go_on);
  before.evaluate();
  save_checkpoint(folder.path() / "model.h5", before);

  SequenceModel<float> second(Device::cpu(), model_for(task, 12), 99);
  Trainer after(second, task, options);
  restore(folder.path() / "model.h5", after);
  CHECK(after.steps() == 5);
  CHECK(after.best()->loss == before.best()->loss);
  CHECK(everything(after) == everything(before));
  after.run(10, go_on);
  CHECK(everything(after) == everything(uninterrupted));
}

TEST_CASE("training gives the same bits with any number of threads", "[train]") {
  const CopyingTask task({.delay = 9, .batch = 37});
  const int before = thread_count();
  std::vector<float> results[3];
  for (int threads = 1; threads <= 3; ++threads) {
    set_thread_count(threads);
    SequenceModel<float> model(Device::cpu(), model_for(task, 53));
    Trainer trainer(model, task);
    trainer.run(5, [](const TrainingStep&) { return true; });
    results[threads - 1].assign(model.parameters().values().begin(), model.parameters().values().end());
  }
  set_thread_count(before);
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

namespace {

/// Adding over a few steps, with held-out batches of four, four and one sequence.
class UnevenTask : public Task {
 public:
  std::string name() const override { return "uneven"; }
  SequenceData data() const override { return adding_.data(); }
  Index batch_size() const override { return 4; }
  std::uint64_t seed() const override { return 5; }
  Index length() const override { return adding_.length(); }
  double baseline_loss() const override { return 1; }
  bool solved(const Evaluation&) const override { return false; }
  void training_batch(std::uint64_t step, Batch& batch) const override {
    adding_.training_batch(step, batch);
  }
  Index evaluation_batches(HeldOut) const override { return 3; }
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override {
    if (broken) throw ValueError("there is no such batch");
    (number < 2 ? adding_ : single_).evaluation_batch(set, number, batch);
    if (spoiled) batch.reals(batch_names::values)(0, 0) = std::numeric_limits<float>::quiet_NaN();
  }
  std::vector<Metric> metrics() const override {
    return {{"largest_output", "largest output", false}, {second_metric, "some", true}};
  }
  void count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                     TensorView<double> sums) const override {
    sums(0, 0) += *std::ranges::max_element(outputs);
    sums(0, 1) += 1;
    if (batch.reals(batch_names::values).shape()[0] > 4) sums(1, 1) += 1;  // in no batch
  }
  std::string config() const override { return "{}"; }

  std::string second_metric = "none";
  bool spoiled = false;
  bool broken = false;

 private:
  AddingTask adding_{{.length = 6, .batch = 4, .seed = 5}};
  AddingTask single_{{.length = 6, .batch = 1, .seed = 5}};
};

/// Such a task with counters of its own: one row of the smallest and the largest output and their difference.
class SpreadTask final : public UnevenTask {
 public:
  std::vector<Metric> metrics() const override {
    return {{"spread", "spread", false}, {"loss_by_2", "half", false}};
  }
  Shape counters() const override { return {3}; }
  void count_metrics(ConstTensorView<float> outputs, const Batch&, TensorView<double> sums) const override {
    sums(0) += *std::ranges::min_element(outputs);
    sums(1) += *std::ranges::max_element(outputs);
    sums(2) += 1;
  }
  std::vector<double> metric_values(ConstTensorView<double> sums, double mean_loss) const override {
    std::vector<double> values = {(sums(1) - sums(0)) / sums(2)};
    if (!lacks_one) values.push_back(mean_loss / 2);
    return values;
  }

  bool lacks_one = false;
};

}  // namespace

TEST_CASE("an evaluation weighs targets alike, whatever the sizes of their batches", "[train]") {
  const UnevenTask task;
  SequenceModel<float> model(Device::cpu(), model_for(task, 8));
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    double sum = 0;
    int count = 0;
    Batch batch;
    for (Index i = 0; i < 3; ++i) {
      task.evaluation_batch(set, i, batch);
      const TensorView<const float> outputs = model.forward(batch);
      for (Index b = 0; b < outputs.shape()[0]; ++b, ++count) {
        const double difference = static_cast<double>(outputs(b, 0)) - batch.reals(batch_names::values)(b, 0);
        sum += difference * difference;
      }
    }
    CHECK(count == 9);
    CHECK(evaluate(model, task, set).loss == Approx(sum / count).epsilon(1e-12));
  }
  CHECK(evaluate(model, task, HeldOut::test).loss != evaluate(model, task, HeldOut::validation).loss);
}

TEST_CASE("the best result is the first of the smallest finite loss", "[train]") {
  UnevenTask task;
  SequenceModel<float> model(Device::cpu(), model_for(task, 8));
  Trainer trainer(model, task);
  task.spoiled = true;
  CHECK(std::isnan(trainer.evaluate().loss));
  CHECK_FALSE(trainer.best().has_value());
  task.spoiled = false;
  const double sound = trainer.evaluate().loss;
  CHECK(trainer.best()->loss == sound);
  trainer.set_steps(3);
  trainer.evaluate();  // as good, but later
  task.spoiled = true;
  trainer.evaluate();
  CHECK(trainer.best()->loss == sound);
  CHECK(trainer.best()->step == 0);
}

TEST_CASE("metrics of a task are means over all batches of what it counts", "[train]") {
  UnevenTask task;
  SequenceModel<float> model(Device::cpu(), model_for(task, 8));
  double sum = 0;
  const Evaluation found = evaluate(model, task, HeldOut::test, [&](const Batch&, const BatchLoss&) {
    const ConstTensorView<float> outputs = model.outputs();
    sum += *std::ranges::max_element(outputs);
  });
  CHECK(found.metric("largest_output") == sum / 3);
  CHECK(std::isnan(found.metric("none").value()));
  CHECK_FALSE(std::signbit(found.metric("none").value()));
  CHECK_FALSE(found.metric("accuracy").has_value());
  REQUIRE(found.metrics.size() == 2);
  CHECK_FALSE(found.metrics[0].metric.is_share);
  const auto check_refused = [&](const char* name, const char* why) {
    CAPTURE(name);
    task.second_metric = name;
    CHECK_THROWS_WITH(evaluate(model, task, HeldOut::test),
                      contains(fmt::format("the task uneven has a metric '{}'{}", name, why)));
  };
  for (const char* name : {"", "a,b", "Upper"}) check_refused(name, "; expected a name of 1 to 40");
  for (const char* name : {"largest_output", "evaluation_loss", "precision"})
    check_refused(name, ", which is the name of another column");
}

TEST_CASE("a task makes the values of its metrics of its own counters and of the loss", "[train]") {
  SpreadTask task;
  SequenceModel<float> model(Device::cpu(), model_for(task, 8));
  double sum = 0;
  const Evaluation found = evaluate(model, task, HeldOut::test, [&](const Batch&, const BatchLoss&) {
    const ConstTensorView<float> outputs = model.outputs();
    const auto [least, most] = std::ranges::minmax_element(outputs);
    sum += static_cast<double>(*most) - static_cast<double>(*least);
  });
  CHECK(*found.metric("spread") == Approx(sum / 3));
  CHECK(*found.metric("spread") > 0);
  CHECK(found.metric("loss_by_2") == found.loss / 2);
  task.lacks_one = true;
  CHECK_THROWS_WITH(evaluate(model, task, HeldOut::test), contains("has 2 metrics and made 1 values"));
}

TEST_CASE("an evaluation that is left between two batches is none", "[train]") {
  const UnevenTask task;
  SequenceModel<float> model(Device::cpu(), model_for(task, 8));
  Trainer trainer(model, task);
  int batches = 0;
  const double loss = trainer.evaluate([&] { ++batches; }).loss;
  CHECK(batches == task.evaluation_batches(HeldOut::validation));
  CHECK(loss == trainer.evaluate().loss);
  trainer.set_best(std::nullopt);
  const auto leave_second = [&, count = 0]() mutable {
    if (++count == 2) throw Error("left");
  };
  CHECK_THROWS_WITH(trainer.evaluate(leave_second), contains("left"));
  CHECK_FALSE(trainer.best().has_value());
  CHECK_THROWS_WITH(evaluate(model, task, HeldOut::test, {}, leave_second), contains("left"));
  CHECK(trainer.evaluate().loss == loss);
}

TEST_CASE("a training that diverges stops with the step named and the parameters as they were", "[train]") {
  const CopyingTask task({.delay = 3, .batch = 4});
  SequenceModel<float> model(Device::cpu(), model_for(task, 8));
  Trainer trainer(model, task);
  trainer.step();
  ParameterSet<float>& parameters = model.parameters();
  parameters.value(parameters.find("readout/bias"))(2) = std::numeric_limits<float>::infinity();
  const Tensor<float> before = parameters.values().copy();
  CHECK_THROWS_WITH(trainer.step(), contains("diverged at step 2"));
  CHECK_THROWS_AS(trainer.step(), DivergenceError);
  CHECK(equal(parameters.values(), before));
  CHECK(trainer.steps() == 1);
}

TEST_CASE("an evaluation diverges where updates have left no model, and fails as its task fails", "[train]") {
  UnevenTask task;
  SequenceModel<float> model(Device::cpu(), model_for(task, 8));
  Trainer trainer(model, task);
  trainer.step();
  const auto diverges = [&] {
    try {
      trainer.evaluate();
    } catch (const DivergenceError&) {
      return true;
    } catch (const ValueError&) {
      return false;
    }
    FAIL("nothing is wrong");
    return false;
  };
  task.broken = true;
  CHECK_FALSE(diverges());
  ParameterSet<float>& parameters = model.parameters();
  parameters.value(parameters.find("cell/reflection_vectors"))(2, 0) = std::numeric_limits<float>::infinity();
  CHECK(diverges());
  CHECK_THROWS_WITH(trainer.evaluate(), contains("diverged at step 1: reflection vector 2 is"));
}

TEST_CASE("a callback that says so ends a run", "[train]") {
  const CopyingTask task({.delay = 3, .batch = 4});
  SequenceModel<float> model(Device::cpu(), model_for(task, 8));
  Trainer trainer(model, task);
  trainer.run(100, [](const TrainingStep& step) { return step.step < 7; });
  CHECK(trainer.steps() == 7);
}

namespace {

/// Adding, each batch of it in pieces of these sizes: their batches K i to K i + K - 1 are batch i as a
/// whole.
class InPieces final : public Task {
 public:
  explicit InPieces(std::vector<Index> sizes) : sizes_(std::move(sizes)) {}
  std::string name() const override { return "pieces"; }
  SequenceData data() const override { return whole.data(); }
  Index batch_size() const override { return 12; }
  std::uint64_t seed() const override { return whole.seed(); }
  Index length() const override { return whole.length(); }
  double baseline_loss() const override { return 1; }
  bool solved(const Evaluation&) const override { return false; }
  void training_batch(std::uint64_t number, Batch& batch) const override {
    Batch all;
    whole.training_batch(number / sizes_.size(), all);
    const std::size_t piece = number % sizes_.size();
    const Index first = std::accumulate(sizes_.begin(), sizes_.begin() + static_cast<long>(piece), Index{0});
    const Tensor<float>& features = all.reals(batch_names::features);
    const Index size = sizes_[piece], length = features.shape()[0];
    batch.reals(batch_names::features).reserve({length, size, 2});
    batch.reals(batch_names::values).reserve({size, 1});
    for (Index b = 0; b < size; ++b) {
      for (Index t = 0; t < length; ++t) {
        for (Index k = 0; k < 2; ++k) batch.reals(batch_names::features)(t, b, k) = features(t, first + b, k);
      }
      batch.reals(batch_names::values)(b, 0) = all.reals(batch_names::values)(first + b, 0);
    }
  }
  Index evaluation_batches(HeldOut) const override { return 1; }
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override {
    whole.evaluation_batch(set, number, batch);
  }
  std::string config() const override { return "{}"; }

  AddingTask whole{{.length = 9, .batch = 12, .seed = 4}};

 private:
  std::vector<Index> sizes_;
};

}  // namespace

TEST_CASE("a step of several batches is that of one batch with all their sequences", "[train]") {
  // Gradients are clipped, and all sequences count alike in batches of different sizes.
  const TrainerOptions whole{.optimizer = Sgd{.lr = 0.1, .lr_orthogonal = 0.1}, .clip = 0.05};
  for (const std::vector<Index>& sizes : {std::vector<Index>{12}, {6, 6}, {4, 4, 4}, {1, 8, 3}}) {
    CAPTURE(sizes);
    const InPieces task(sizes);
    TrainerOptions in_pieces = whole;
    in_pieces.accumulate = std::ssize(sizes);
    SequenceModel<float> expected(Device::cpu(), model_for(task, 10)),
        found(Device::cpu(), model_for(task, 10));
    Trainer expected_trainer(expected, task.whole, whole), trainer(found, task, in_pieces);
    const Tensor<float> before = found.parameters().values().copy();
    for (int i = 0; i < 4; ++i) {
      const TrainingStep one = expected_trainer.step(), several = trainer.step();
      CHECK(several.step == one.step);
      CHECK(several.loss() == Approx(one.loss()).epsilon(1e-6));
      CHECK(several.gradient_norm() == Approx(one.gradient_norm()).epsilon(1e-5));
    }
    CHECK(relative_error(found.parameters().values(), expected.parameters().values()) < 1e-6);
    // What the steps have changed is far more.
    CHECK(relative_error(found.parameters().values(), before) > 1e-4);
  }
}

TEST_CASE("a training of several batches a step is restored with the bits of one that was not", "[train]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.h5";
  const AddingTask task({.length = 7, .batch = 8, .seed = 3});
  const ModelOptions options =
      model_for(task.data(), {OrthogonalCell{.hidden_size = 12}, Dropout{.rate = 0.3}});
  const auto training = [&](std::uint64_t seed, Index accumulate) {
    auto model = std::make_unique<SequenceModel<float>>(Device::cpu(), options, seed);
    auto trainer = std::make_unique<Trainer>(*model, task, TrainerOptions{.accumulate = accumulate});
    return std::pair(std::move(model), std::move(trainer));
  };
  const auto go_on = [](const TrainingStep&) { return true; };
  const auto [straight, uninterrupted] = training(3, 3);
  uninterrupted->run(6, go_on);
  const auto [first, before] = training(3, 3);
  before->run(2, go_on);
  save_checkpoint(file, *before);
  CHECK(read_model_info(file).trainer.accumulate == 3);
  const auto [second, after] = training(9, 3);
  restore(file, *after);
  after->run(6, go_on);
  CHECK(equal(second->parameters().values(), straight->parameters().values()));
  const auto [third, other] = training(3, 2);
  CHECK_THROWS_WITH(restore(file, *other), contains("accumulate is 3 there and 2 here"));
}

TEST_CASE("a step has one batch or more", "[train]") {
  const CopyingTask task({.delay = 3, .batch = 4});
  SequenceModel<float> model(Device::cpu(), model_for(task, 8));
  for (const Index batches : {Index{0}, Index{-1}, Index{65537}})
    CHECK_THROWS_WITH(Trainer(model, task, {.accumulate = batches}), contains("accumulate"));
}
