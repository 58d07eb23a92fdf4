#include "orthornn/tasks/adding_task.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

std::vector<float> features_of(const Task& task, std::uint64_t step) {
  Batch batch;
  task.training_batch(step, batch);
  return {batch.reals(batch_names::features).begin(), batch.reals(batch_names::features).end()};
}

}  // namespace

TEST_CASE("An adding batch marks one value in each half and wants their sum", "[adding]") {
  const Index length = GENERATE(2, 3, 21, 200);
  const AddingTask task({.length = length, .batch = 40, .seed = 1});
  REQUIRE(task.length() == length);
  Batch batch;
  task.training_batch(0, batch);
  REQUIRE(batch.reals(batch_names::features).shape() == Shape{length, 40, 2});
  REQUIRE(batch.reals(batch_names::values).shape() == Shape{40, 1});
  CHECK(batch.integers(batch_names::symbols).empty());
  CHECK(batch.integers(batch_names::classes).empty());
  CHECK(batch.integers(batch_names::lengths).empty());

  for (Index b = 0; b < 40; ++b) {
    float sum = 0;
    int first_half = 0, second_half = 0;
    for (Index t = 0; t < length; ++t) {
      const float value = batch.reals(batch_names::features)(t, b, 0);
      const float mark = batch.reals(batch_names::features)(t, b, 1);
      REQUIRE((value >= 0 && value < 1));
      REQUIRE((mark == 0 || mark == 1));
      sum += mark * value;
      (t < length / 2 ? first_half : second_half) += mark == 1;
    }
    CHECK(first_half == 1);
    CHECK(second_half == 1);
    CHECK(batch.reals(batch_names::values)(b, 0) == sum);
  }
}

TEST_CASE("Adding values are uniform and every step gets its marks", "[adding]") {
  const AddingTask task({.length = 7, .batch = 6000, .seed = 2});
  Batch batch;
  task.training_batch(0, batch);
  double sum = 0, sum_of_squares = 0;
  for (Index t = 0; t < 7; ++t) {
    int marks = 0;
    for (Index b = 0; b < 6000; ++b) {
      sum += batch.reals(batch_names::features)(t, b, 0);
      sum_of_squares +=
          batch.reals(batch_names::features)(t, b, 0) * batch.reals(batch_names::features)(t, b, 0);
      marks += batch.reals(batch_names::features)(t, b, 1) == 1;
    }
    // Three steps in the first half, four in the second; counts stray by at most sqrt(6000 / 3 * 2 / 3) = 37.
    CHECK(std::abs(marks - (t < 3 ? 2000 : 1500)) < 5 * 37);
  }
  const double count = 7 * 6000;
  CHECK(std::abs(sum / count - 1.0 / 2) < 5 * std::sqrt(1.0 / 12 / count));
  CHECK(std::abs(sum_of_squares / count - 1.0 / 3) < 5 * std::sqrt((1.0 / 5 - 1.0 / 9) / count));
}

TEST_CASE("The adding baseline is the error of always answering one", "[adding]") {
  const AddingTask task({.length = 20, .batch = 1000, .seed = 3});
  double error = 0, sum = 0;
  double count = 0;
  for (Index number = 0; number < task.evaluation_batches(HeldOut::validation); ++number) {
    Batch batch;
    task.evaluation_batch(HeldOut::validation, number, batch);
    for (const float target : batch.reals(batch_names::values)) {
      error += (target - 1.0) * (target - 1.0);
      sum += target;
      ++count;
    }
  }
  // (sum - 1)^2 of two uniforms: mean 1/6, fourth moment 1/15, so it varies by 1/15 - 1/36.
  CHECK(std::abs(error / count - task.baseline_loss()) < 5 * std::sqrt((1.0 / 15 - 1.0 / 36) / count));
  // No other constant is better: the mean is 1.
  CHECK(std::abs(sum / count - 1) < 5 * std::sqrt(1.0 / 6 / count));
}

TEST_CASE("Adding batches depend on seed and step alone, and evaluation has batches of its own", "[adding]") {
  const AddingTask task({.length = 6, .batch = 3, .seed = 7});
  const std::vector<float> fifth = features_of(task, 5);
  CHECK(features_of(task, 6) != fifth);
  CHECK(features_of(task, 5) == fifth);
  CHECK(features_of(AddingTask({.length = 6, .batch = 3, .seed = 7}), 5) == fifth);
  CHECK(features_of(AddingTask({.length = 6, .batch = 3, .seed = 8}), 5) != fifth);

  REQUIRE(task.evaluation_batches(HeldOut::validation) == 10);
  std::vector<std::vector<float>> all;
  for (Index number = 0; number < 10; ++number) {
    Batch batch;
    task.evaluation_batch(HeldOut::validation, number, batch);
    all.emplace_back(batch.reals(batch_names::features).begin(), batch.reals(batch_names::features).end());
    all.push_back(features_of(task, static_cast<std::uint64_t>(number)));
  }
  std::ranges::sort(all);
  CHECK(std::ranges::adjacent_find(all) == all.end());
}

TEST_CASE("Adding refills a batch in place", "[adding]") {
  const AddingTask task({.length = 8, .batch = 4, .seed = 1});
  Batch batch;
  task.training_batch(0, batch);
  const float* memory = batch.reals(batch_names::features).data();
  task.training_batch(1, batch);
  CHECK(batch.reals(batch_names::features).data() == memory);
}

TEST_CASE("Adding is solved by its error; it has no right answers", "[adding]") {
  const AddingTask task;
  CHECK(task.length() == 200);
  CHECK(task.solved({.loss = 0.009}));
  CHECK_FALSE(task.solved({.loss = 0.011}));
  CHECK_FALSE(task.solved({.loss = std::nan("")}));
  CHECK(task.metrics().empty());
}

TEST_CASE("An adding task comes back from its config", "[adding]") {
  const AddingTask task({.length = 12, .batch = 4, .seed = 3});
  const auto rebuilt = make_task(task.config(), {.batch = 4, .seed = 3});
  CHECK(rebuilt->name() == "adding");
  CHECK(rebuilt->config() == task.config());
  CHECK(features_of(*rebuilt, 2) == features_of(task, 2));

  CHECK_THAT(error_message<ValueError>([] { AddingTask({.length = 1}); }), contains("at least 2"));
  CHECK_THAT(error_message<ValueError>([] { AddingTask({.batch = 0}); }), contains("batch"));
  CHECK_THAT(error_message<ValueError>([] { make_task(R"({"task": "adding", "delay": 5})", {}); }),
             contains("length"));
}
