// Own sequences whose targets do not count alike: class weights, and target numbers that are missing.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "orthornn/tasks/task_options.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/random_tensor.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "tasks/own_files.hpp"
#include "tasks/sequences/class_weights.hpp"
#include "tasks/weighted_sequences.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Lets a model answer 0 everywhere.
template <class Model>
void answer_zero(Model& model) {
  std::fill(model.parameters().values().begin(), model.parameters().values().end(), 0);
}

/// Checks the gradients of a batch by a model of double.
void check_gradients(const Task& task, const LayerOptions& layer) {
  SequenceModel<double> model(Device::cpu(), model_for(task.data(), {layer}), 5);
  Batch batch;
  task.training_batch(0, batch);
  REQUIRE_FALSE(std::as_const(batch).reals(batch_names::weights).empty());
  model.loss_and_gradient(batch);
  const Tensor<double> gradients = model.parameters().gradients().copy();
  const Tensor<double> expected =
      finite_differences(model.parameters().values().view(), [&] { return model.loss(batch).sum; });
  CHECK(relative_error(gradients, expected) < 1e-7);
}

}  // namespace

TEST_CASE("Balanced classes have equal shares of the loss, also of held-out data", "[data][weights]") {
  const RareClass data;
  const DataTask task(data.view(), {.balanced = true, .batch = 30});
  // 30 / (2 * 25) and 30 / (2 * 5), as scikit-learn has them.
  CHECK(task.statistics().class_weights == std::vector<float>{0.6F, 3});
  CHECK(task.baseline_loss() == Approx(std::log(2)).epsilon(1e-6));
  Batch batch;
  const auto check = [&] {
    const auto weights = std::as_const(batch).reals(batch_names::weights);
    const auto classes = std::as_const(batch).integers(batch_names::classes);
    REQUIRE(weights.shape() == classes.shape());
    for (Index b = 0; b < classes.size(); ++b) CHECK(weights(b) == (classes(b) == 0 ? 0.6F : 3.0F));
  };
  task.training_batch(0, batch);
  check();
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {Gru{.hidden_size = 3}}));
  // The count is the sum of the weights, and a guesser has the loss of the baseline.
  answer_zero(model);
  const BatchLoss loss = model.loss(batch);
  CHECK(loss.count == Approx(30));
  CHECK(loss.mean() == Approx(task.baseline_loss()).epsilon(1e-6));
  task.evaluation_batch(HeldOut::test, 0, batch);
  check();
  // Metrics have no weights.
  for (const float bias : {2.0F, -2.0F}) {
    model.parameters().values()(model.parameters().count() - 2) = bias;
    const Evaluation found = evaluate(model, task, HeldOut::validation);
    CHECK(*found.metric("accuracy") == 0.5);
    // Validation has a sequence of each class.
    const double of_first = std::log1p(std::exp(-static_cast<double>(bias))),
                 of_second = std::log1p(std::exp(static_cast<double>(bias)));
    CHECK(found.loss == Approx((0.6 * of_first + 3 * of_second) / 3.6).epsilon(1e-6));
  }
}

TEST_CASE("Classes weigh what they are given, and others 1", "[data][weights]") {
  const RareClass data;
  SequenceView view = data.view();
  Tensor<float> weights(Shape{1});
  weights(0) = 0.25F;
  view.class_weights = weights;
  const DataTask task(view, {.batch = 30});
  CHECK(task.statistics().class_weights == std::vector<float>{0.25F, 1});
  // Of 25 * 0.25 and 5 * 1.
  const double share = 6.25 / 11.25;
  CHECK(task.baseline_loss() ==
        Approx(-share * std::log(share) - (1 - share) * std::log(1 - share)).epsilon(1e-12));
  const auto error = [&](const DataTaskOptions& options) {
    return error_message<ValueError>([&] { const DataTask refused(view, options); });
  };
  CHECK_THAT(error({.balanced = true, .batch = 30}), contains("one of the two"));
  for (const float bad : {0.0F, -1.0F, missing_number, std::numeric_limits<float>::infinity()}) {
    weights(0) = bad;
    CHECK_THAT(error({.batch = 30}), contains("expected a number above 0"));
  }
  Tensor<float> three(Shape{3});
  std::ranges::fill(three, 1.0F);
  view.class_weights = three;
  CHECK_THAT(error({.batch = 30}), contains("weights of 3 classes, and the training data have 2"));
  const Gaps numbers;
  view = numbers.view();
  CHECK_THAT(error_message<ValueError>([&] {
               const DataTask refused(view, {.missing = Missing::zero, .balanced = true, .batch = 30});
             }),
             contains("targets are numbers"));
}

TEST_CASE("Symbols may be balanced, and perplexity is that without weights", "[data][weights]") {
  Tensor<std::int32_t> symbols(Shape{20, 6});
  // Of the five targets of a sequence three are 1, one is 0 and one is 2.
  for (Index i = 0; i < symbols.size(); ++i)
    symbols.data()[i] = i % 6 == 4 ? 2 : static_cast<std::int32_t>(i % 2);
  const DataTask task({.symbols = symbols}, {.ahead = 1, .balanced = true, .batch = 4});
  CHECK(task.baseline_loss() == Approx(std::log(3)).epsilon(1e-6));
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {Gru{.hidden_size = 2}}));
  answer_zero(model);
  model.parameters().values()(model.parameters().count() - 1) = 1;  // for symbol 2
  const Evaluation found = evaluate(model, task, HeldOut::test);
  const DataTask plain({.symbols = symbols}, {.ahead = 1, .batch = 4});
  const Evaluation expected = evaluate(model, plain, HeldOut::test);
  CHECK(*found.metric("perplexity") == Approx(std::exp(expected.loss)).epsilon(1e-6));
  CHECK(*found.metric("bits_per_symbol") == Approx(*expected.metric("bits_per_symbol")).epsilon(1e-6));
  CHECK(*found.metric("accuracy") == *expected.metric("accuracy"));
  CHECK(found.loss < expected.loss - 0.1);
}

TEST_CASE("Target numbers that are missing do not count", "[data][weights]") {
  Gaps data;
  CHECK_THAT(error_message<ValueError>([&] { const DataTask refused(data.view(), {.batch = 30}); }),
             contains("sequence 0: target 0 of step 0 is missing; expected a number, or --missing zero"));
  for (const Missing how : {Missing::zero, Missing::mask}) {
    const DataTask task(data.view(), {.missing = how, .batch = 30});
    Batch batch;
    task.training_batch(0, batch);
    const auto weights = std::as_const(batch).reals(batch_names::weights);
    const auto values = std::as_const(batch).reals(batch_names::values);
    REQUIRE(weights.shape() == values.shape());
    double sum = 0, count = 0;
    for (Index i = 0; i < values.size(); ++i) {
      CHECK(weights.data()[i] == (std::isnan(values.data()[i]) ? 0 : 1));
      if (std::isnan(values.data()[i])) continue;
      sum += static_cast<double>(values.data()[i]) * static_cast<double>(values.data()[i]);
      ++count;
    }
    CHECK(count == 200);
    // All of the training: the mean of zeros is the baseline.
    SequenceModel<float> model(Device::cpu(), model_for(task.data(), {Gru{.hidden_size = 3}}));
    answer_zero(model);
    const BatchLoss loss = model.loss(batch);
    CHECK(loss.count == count);
    CHECK(loss.mean() == Approx(sum / count).epsilon(1e-6));
    CHECK(task.baseline_loss() == Approx(sum / count).epsilon(1e-5));
    const Evaluation found = evaluate(model, task, HeldOut::test);
    double squares = 0, counted = 0;
    for (Index i = 32 * 10; i < 34 * 10; ++i) {
      if (std::isnan(data.values.data()[i])) continue;
      const auto column = static_cast<std::size_t>(i % 2);
      squares += std::pow(data.values.data()[i] - task.statistics().values.shift[column], 2);
      ++counted;
    }
    CHECK(*found.metric("rmse") == Approx(std::sqrt(squares / counted)).epsilon(1e-5));
  }
  // A sequence needs one that counts.
  for (Index i = 0; i < 10; ++i) data.values.data()[40 + i] = missing_number;
  CHECK_THAT(error_message<ValueError>(
                 [&] { const DataTask refused(data.view(), {.missing = Missing::zero, .batch = 30}); }),
             contains("sequence 4: none of its targets counts"));
}

TEST_CASE("A forecast has gaps in its inputs and its targets", "[data][weights]") {
  Tensor<float> features = normal_tensor<float>({34, 5, 1}, 4);
  for (Index i = 0; i < features.size(); i += 4) features.data()[i] = missing_number;
  const SequenceView view{.features = features, .validation = 2, .test = 2};
  CHECK_THAT(error_message<ValueError>([&] { const DataTask refused(view, {.ahead = 1, .batch = 30}); }),
             contains("is missing; expected a number, or --missing zero or mask"));
  const DataTask task(view, {.ahead = 2, .missing = Missing::mask, .batch = 30});
  Batch batch;
  task.training_batch(0, batch);
  const auto x = std::as_const(batch).reals(batch_names::features);
  const auto weights = std::as_const(batch).reals(batch_names::weights);
  REQUIRE(x.shape() == Shape{3, 30, 2});
  REQUIRE(weights.shape() == Shape{3, 30, 1});
  // Step 2 is the target of step 0, and an input itself.
  for (Index b = 0; b < 30; ++b) CHECK(x(2, b, 1) == 1 - weights(0, b, 0));
}

TEST_CASE("A forecast whose gaps are no targets has no weights", "[data][weights]") {
  Tensor<float> features = normal_tensor<float>({34, 5, 1}, 4);
  for (Index i = 0; i < 34; ++i) features.data()[5 * i + i % 2] = missing_number;
  const SequenceView view{.features = features, .validation = 2, .test = 2};
  for (const Index ahead : {1, 2}) {
    const DataTask task(view, {.ahead = ahead, .missing = Missing::zero, .batch = 30});
    Batch batch;
    task.training_batch(0, batch);
    CHECK(std::as_const(batch).reals(batch_names::weights).empty() == (ahead == 2));
  }
}

TEST_CASE("A piece without a target that counts is refused before the training", "[data][weights]") {
  Tensor<float> features = normal_tensor<float>({104, 1}, 6);
  Tensor<std::int32_t> lengths(Shape{3});
  lengths(0) = 60;
  lengths(1) = lengths(2) = 22;
  // The training has two streams of 30 steps, in pieces of 10. Of classes and numbers alike.
  Tensor<float> values = normal_tensor<float>({104, 1}, 7);
  Tensor<std::int32_t> classes(Shape{104});
  const auto leave_out = [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      values.data()[i] = missing_number;
      classes(i) = -1;
    }
  };
  const auto messages = [&] {
    std::vector<std::string> found;
    for (const bool has_values : {false, true}) {
      SequenceView view{
          .features = features, .lengths = lengths, .every_step = true, .validation = 1, .test = 1};
      if (has_values)
        view.values = values;
      else
        view.classes = classes;
      found.push_back(error_message<ValueError>([&] {
        const DataTask task(view, {.cut = 10, .missing = Missing::zero, .batch = 2});
        SequenceModel<float> model(Device::cpu(), model_for(task.data(), {Gru{.hidden_size = 3}}));
        Trainer trainer(model, task, {});
        for (int step = 0; step < 6; ++step) CHECK(std::isfinite(trainer.step().loss()));
        CHECK(std::isfinite(trainer.evaluate().loss));
        CHECK(std::isfinite(evaluate(model, task, HeldOut::test).loss));
      }));
    }
    return found;
  };
  leave_out(10, 20);
  for (const std::string& message : messages())
    CHECK(message.empty());  // the second stream has targets there
  leave_out(40, 50);
  for (const std::string& message : messages())
    CHECK_THAT(message, contains("sequence 0: of its steps 10 to 19 no target counts") &&
                            contains("30 steps apart") && contains("larger --length"));
  for (Index i = 0; i < 104; ++i) {
    values.data()[i] = 1;
    classes(i) = static_cast<std::int32_t>(i % 2);
  }
  leave_out(61, 82);
  for (const std::string& message : messages()) CHECK(message.empty());  // one is enough for an evaluation
  leave_out(60, 61);
  for (const std::string& message : messages())
    CHECK_THAT(message, contains("sequence 1: none of its targets counts in the 22 steps") &&
                            contains("validation data"));
}

TEST_CASE("Gradients of weighted targets are those of finite differences", "[data][weights][gradient]") {
  const OrthogonalCell cwy{.hidden_size = 4};
  const RareClass rare;
  check_gradients(DataTask(rare.view(), {.balanced = true, .batch = 10}), cwy);
  const Gaps gaps;
  check_gradients(DataTask(gaps.view(), {.missing = Missing::mask, .batch = 10}), cwy);
  // Classes of steps of different lengths, of which some do not count.
  Tensor<std::int32_t> lengths(Shape{30}), classes(Shape{120});
  for (Index i = 0; i < 30; ++i) lengths(i) = static_cast<std::int32_t>(3 + 2 * (i % 2));
  for (Index i = 0; i < 120; ++i) classes(i) = static_cast<std::int32_t>(i * i % 4) - 1;
  for (Index i = 0; i < 120; ++i) classes(i) = classes(i) == 0 || i % 3 == 0 ? classes(i) : 1;
  const Tensor<float> steps = normal_tensor<float>({120, 2}, 5);
  check_gradients(DataTask({.features = steps, .lengths = lengths, .every_step = true, .classes = classes},
                           {.balanced = true, .batch = 10}),
                  cwy);
}

TEST_CASE("Accumulated batches of weighted targets are one batch of all", "[data][weights]") {
  const Gaps data;
  const auto trained = [&](Index batch, Index accumulate) {
    const DataTask task(data.view(), {.missing = Missing::zero, .batch = batch});
    SequenceModel<float> model(Device::cpu(), model_for(task.data(), {OrthogonalCell{.hidden_size = 6}}));
    Trainer trainer(model, task, {.optimizer = Sgd{.lr = 0.1}, .clip = 0.05, .accumulate = accumulate});
    const TrainingStep step = trainer.step();
    Tensor<float> values = model.parameters().values().copy();
    return std::pair(step.loss(), std::move(values));
  };
  const auto [loss, values] = trained(30, 1);
  const auto [of_parts, parts] = trained(10, 3);
  CHECK(of_parts == Approx(loss).epsilon(1e-6));
  CHECK(relative_error(parts, values) < 1e-6);
}

TEST_CASE("Class weights of a file are by name, and stay in the parts of a model file",
          "[sequences][weights]") {
  const TemporaryFolder folder;
  std::string text = "x,target\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("{},{}\n", i, i % 4 == 0 ? "up" : "down");
  write_text(folder / "own.csv", text);
  const SequencesTask task({.data = folder / "own.csv", .class_weights = "up=3", .batch = 8});
  task.load();
  CHECK(task.statistics().class_weights == std::vector<float>{1, 3});  // down, up
  TaskSource source{.batch = 8, .parts = task.parts()};
  source.data = folder / "own.csv";
  const auto again = make_task(task.config(), source);
  again->load();
  CHECK(dynamic_cast<const SequencesTask&>(*again).statistics() == task.statistics());
  CHECK(again->baseline_loss() == task.baseline_loss());
  const auto message = [&](const char* weights, Goal goal = Goal::automatic) {
    return error_message<Error>([&] {
      SequencesTask({.data = folder / "own.csv", .goal = goal, .class_weights = weights, .batch = 8}).load();
    });
  };
  CHECK_THAT(message("up=2,left=1"),
             contains("names the class 'left'; expected those of the data: down, up"));
  CHECK_THAT(message("up=2,up=1"), contains("'up=1' is a class that was named before"));
  CHECK(message(" up = 2 , down= 1").empty());
  CHECK_THAT(message("up=2, up =1"), contains("'up =1' is a class that was named before"));
  CHECK_THAT(message("up=-2"), contains("'up=-2' has no weight above 0"));
  CHECK_THAT(message("up=2x"), contains("'up=2x' has no weight above 0"));
  CHECK_THAT(message("balance"), contains("'balance' has no weight; expected none, balanced"));
  CHECK_THAT(message(""), contains("expected none, balanced"));
  CHECK_THAT(message("0=2", Goal::forecast), contains("a forecast has symbols as its classes"));
  CHECK_THAT(message("balanced", Goal::values), contains("is no finite number"));
  TaskSource damaged{.batch = 8, .parts = task.parts()};
  std::string& statistics = damaged.parts[0].bytes;
  statistics.replace(statistics.find("[1.0,3.0]"), 9, "[1.0,0.0]");
  CHECK_THAT(error_message<ValueError>([&] { make_task(task.config(), damaged); }),
             contains("class weights are not above 0"));
}

TEST_CASE("A class of arrays has one weight, however its number is written", "[sequences][weights]") {
  const std::vector<std::string> none;
  CHECK(chosen_class_weights("0=2, 2=5").by_number(none) == std::vector<float>{2, 1, 5});
  CHECK_THAT(error_message<ValueError>([&] { chosen_class_weights("0=2,00=5").by_number(none); }),
             contains("names class 0 more than once"));
}

TEST_CASE("Targets of a CSV that differ from step to step, with gaps, are those of steps",
          "[sequences][weights]") {
  const TemporaryFolder folder;
  std::string text = "x,series,target\n";
  for (int i = 0; i < 20; ++i) text += fmt::format("{0},{0},\n{0},{0},0.5\n{0},{0},{0}.25\n", i);
  const auto file = write_text(folder / "own.csv", text);
  const SequencesOptions options{
      .data = file, .inputs = "x", .id = "series", .missing = Missing::zero, .batch = 16};
  const SequencesTask task(options);
  task.load();
  CHECK(task.data().every_step);
  CHECK(task.data().values == 1);
  Batch batch;
  task.training_batch(0, batch);
  const auto weights = std::as_const(batch).reals(batch_names::weights);
  REQUIRE(weights.shape() == Shape{3, 16, 1});
  for (Index b = 0; b < 16; ++b)
    CHECK((weights(0, b, 0) == 0 && weights(1, b, 0) == 1 && weights(2, b, 0) == 1));
  // Where nothing may be missing, the user has to say what is meant.
  SequencesOptions refused = options;
  refused.missing = Missing::refuse;
  CHECK_THAT(error_message<FileError>([&] { SequencesTask(refused).load(); }),
             contains("--goal step-class or step-value"));
}

TEST_CASE("Missing targets of a CSV are read where the user says so", "[sequences][weights]") {
  const TemporaryFolder folder;
  std::string text = "x,series,target\n";
  for (int i = 0; i < 20; ++i) text += fmt::format("{0},{0},0.5\n{0},{0},{1}\n", i, i % 2 == 0 ? "" : "nan");
  write_text(folder / "own.csv", text);
  SequencesOptions options{
      .data = folder / "own.csv", .goal = Goal::step_values, .id = "series", .batch = 16};
  CHECK_THAT(error_message<FileError>([&] { SequencesTask(options).load(); }),
             contains("row 3, column 'target': it is missing; expected a number, or --missing zero"));
  options.missing = Missing::zero;
  const SequencesTask task(options);
  Batch batch;
  task.training_batch(0, batch);
  const auto weights = std::as_const(batch).reals(batch_names::weights);
  REQUIRE(weights.shape() == Shape{2, 16, 1});
  for (Index b = 0; b < 16; ++b) {
    CHECK(weights(0, b, 0) == 1);
    CHECK(weights(1, b, 0) == 0);
  }
}
