#include "orthornn/tasks/copying_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/score.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

std::vector<std::int32_t> symbols_of(const Task& task, std::uint64_t step) {
  Batch batch;
  task.training_batch(step, batch);
  return {batch.integers(batch_names::symbols).begin(), batch.integers(batch_names::symbols).end()};
}

/// Outputs that are 1 for the right class and 0 for the others.
Tensor<float> right_outputs(const CopyingTask& task, const Batch& batch) {
  Tensor<float> outputs(Shape{task.length(), task.batch_size(), task.classes()});
  for (Index t = 0; t < task.length(); ++t) {
    for (Index b = 0; b < task.batch_size(); ++b)
      outputs(t, b, batch.integers(batch_names::classes)(t, b)) = 1;
  }
  return outputs;
}

}  // namespace

TEST_CASE("A copying batch shows ten symbols, blanks, the marker and blanks, and wants the symbols back",
          "[copying]") {
  const Index delay = GENERATE(1, 2, 30);
  const CopyingTask task({.delay = delay, .batch = 5, .seed = 1});
  REQUIRE(task.length() == delay + 20);
  REQUIRE(task.symbols() == 10);
  REQUIRE(task.classes() == 9);
  Batch batch;
  task.training_batch(0, batch);
  REQUIRE(batch.integers(batch_names::symbols).shape() == Shape{delay + 20, 5});
  REQUIRE(batch.integers(batch_names::classes).shape() == Shape{delay + 20, 5});
  CHECK(batch.reals(batch_names::features).empty());
  CHECK(batch.reals(batch_names::values).empty());
  CHECK(batch.integers(batch_names::lengths).empty());

  for (Index b = 0; b < 5; ++b) {
    std::vector<std::int32_t> input, target;
    for (Index t = 0; t < task.length(); ++t) {
      input.push_back(batch.integers(batch_names::symbols)(t, b));
      target.push_back(batch.integers(batch_names::classes)(t, b));
    }
    const std::vector<std::int32_t> string(input.begin(), input.begin() + 10);
    CHECK(std::ranges::all_of(string, [](std::int32_t s) { return s >= 0 && s < 8; }));

    std::vector<std::int32_t> expected_input = string;
    expected_input.insert(expected_input.end(), static_cast<std::size_t>(delay - 1), 8);
    expected_input.push_back(9);
    expected_input.insert(expected_input.end(), 10, 8);
    CHECK(input == expected_input);

    std::vector<std::int32_t> expected_target(static_cast<std::size_t>(delay + 10), 8);
    expected_target.insert(expected_target.end(), string.begin(), string.end());
    CHECK(target == expected_target);
  }
}

TEST_CASE("Copying symbols are evenly spread over places and sequences", "[copying]") {
  const CopyingTask task({.delay = 1, .batch = 1000, .seed = 2});
  Batch batch;
  task.training_batch(3, batch);
  // 1000 draws a place: a count strays from 125 by sqrt(1000 / 8 * 7 / 8) = 10.5; five of those.
  for (Index place = 0; place < 10; ++place) {
    std::array<int, 8> found{};
    for (Index b = 0; b < 1000; ++b)
      ++found[static_cast<std::size_t>(batch.integers(batch_names::symbols)(place, b))];
    for (const int times : found) CHECK(std::abs(times - 125) < 53);
  }
}

TEST_CASE("Copying batches depend on seed and step alone, and evaluation has batches of its own",
          "[copying]") {
  const CopyingTask task({.delay = 3, .batch = 4, .seed = 7});
  const std::vector<std::int32_t> fifth = symbols_of(task, 5);
  CHECK(symbols_of(task, 6) != fifth);
  CHECK(symbols_of(task, 5) == fifth);
  CHECK(symbols_of(CopyingTask({.delay = 3, .batch = 4, .seed = 7}), 5) == fifth);
  CHECK(symbols_of(CopyingTask({.delay = 3, .batch = 4, .seed = 8}), 5) != fifth);

  REQUIRE(task.evaluation_batches(HeldOut::validation) == 10);
  std::vector<std::vector<std::int32_t>> all;
  for (Index number = 0; number < 10; ++number) {
    Batch batch;
    task.evaluation_batch(HeldOut::validation, number, batch);
    all.emplace_back(batch.integers(batch_names::symbols).begin(),
                     batch.integers(batch_names::symbols).end());
    all.push_back(symbols_of(task, static_cast<std::uint64_t>(number)));
  }
  std::ranges::sort(all);
  CHECK(std::ranges::adjacent_find(all) == all.end());
}

TEST_CASE("The copying baseline is the loss of blanks, then a fair die", "[copying]") {
  const CopyingTask task({.delay = 12, .batch = 50, .seed = 1});
  double loss = 0;
  Index count = 0;
  for (Index number = 0; number < task.evaluation_batches(HeldOut::validation); ++number) {
    Batch batch;
    task.evaluation_batch(HeldOut::validation, number, batch);
    for (Index t = 0; t < task.length(); ++t) {
      for (Index b = 0; b < task.batch_size(); ++b) {
        std::array<double, 9> guess{};
        if (t < 22) {
          guess[8] = 1;
        } else {
          std::fill(guess.begin(), guess.begin() + 8, 1.0 / 8);
        }
        loss -= std::log(guess[static_cast<std::size_t>(batch.integers(batch_names::classes)(t, b))]);
        ++count;
      }
    }
  }
  CHECK(std::abs(loss / static_cast<double>(count) - task.baseline_loss()) < 1e-12);
  CHECK(std::abs(CopyingTask({.delay = 1000}).baseline_loss() - 0.0204) < 5e-5);  // as published
}

TEST_CASE("Copying scores the symbols recalled, at the last ten steps alone", "[copying]") {
  const CopyingTask task({.delay = 4, .batch = 3, .seed = 1});
  Batch batch;
  task.training_batch(0, batch);
  Tensor<float> outputs = right_outputs(task, batch);
  const Score score = score_of(task, outputs, batch);
  CHECK(score.counted == 30);
  CHECK(score.right == 30);

  outputs(13, 0, 0) = 2;  // the last step before the string
  CHECK(score_of(task, outputs, batch).right == 30);
  outputs(14, 0, 8) = 2;  // a blank where the first symbol should be
  CHECK(score_of(task, outputs, batch).right == 29);
  outputs(23, 2, batch.integers(batch_names::classes)(23, 2)) = std::numeric_limits<float>::quiet_NaN();
  CHECK(score_of(task, outputs, batch).right == 28);
  outputs.resize(outputs.shape());  // all classes alike: no answer
  CHECK(score_of(task, outputs, batch).right == 0);

  const Tensor<float> narrow(Shape{task.length(), 3, 8});
  CHECK_THROWS_AS(score_of(task, narrow, batch), ShapeError);
}

TEST_CASE("Copying is solved far below the baseline with nearly all symbols recalled", "[copying]") {
  const CopyingTask task({.delay = 100});
  const double baseline = task.baseline_loss();
  CHECK(task.solved({.loss = 0.05 * baseline, .metrics = {{Metric::accuracy(), 1.0}}}));
  CHECK_FALSE(task.solved({.loss = 0.11 * baseline, .metrics = {{Metric::accuracy(), 1.0}}}));
  CHECK_FALSE(task.solved({.loss = 0.05 * baseline, .metrics = {{Metric::accuracy(), 0.98}}}));
  CHECK_FALSE(task.solved({.loss = 0}));
  CHECK_FALSE(task.solved({.loss = std::nan(""), .metrics = {{Metric::accuracy(), 1.0}}}));
}

TEST_CASE("Copying refills a batch in place", "[copying]") {
  const CopyingTask task({.delay = 9, .batch = 4, .seed = 1});
  Batch batch;
  task.training_batch(0, batch);
  const std::int32_t* memory = batch.integers(batch_names::symbols).data();
  task.training_batch(1, batch);
  CHECK(batch.integers(batch_names::symbols).data() == memory);
}

TEST_CASE("A copying task comes back from its config", "[copying]") {
  const CopyingTask task({.delay = 17, .batch = 4, .seed = 3});
  const auto rebuilt = make_task(task.config(), {.batch = 4, .seed = 3});
  CHECK(rebuilt->name() == "copying");
  CHECK(rebuilt->config() == task.config());
  CHECK(symbols_of(*rebuilt, 2) == symbols_of(task, 2));
  CHECK(make_task(R"({"task": "copying"})", {})->length() == 1020);
}

TEST_CASE("Texts that are no task are errors that name what is known", "[copying]") {
  const auto message = [](const char* config) {
    return error_message<ValueError>([&] { make_task(config, {}); });
  };
  CHECK_THAT(message("copying"), contains("'copying'"));
  CHECK_THAT(message("[1]"), contains("JSON object"));
  CHECK_THAT(message(R"({"delay": 5})"), contains("JSON object"));
  CHECK_THAT(message(R"({"task": 5})"), contains("JSON object"));
  CHECK_THAT(message(R"({"task": "coping"})"), contains(R"('task' is "coping"; expected adding, copying)"));
  CHECK_THAT(message(R"({"task": "copying", "length": 5})"), contains("no setting 'length'; it has delay"));
  CHECK_THAT(message(R"({"task": "copying", "delay": "5"})"), contains(R"('delay' is "5")"));
  CHECK_THAT(message(R"({"task": "copying", "delay": 1.5})"), contains("'delay' is 1.5"));
  CHECK_THAT(message(R"({"task": "copying", "delay": 18446744073709551615})"), contains("whole number"));
  CHECK_THAT(message(R"({"task": "copying", "delay": true})"), contains("'delay' is true"));
  CHECK_THAT(message(R"({"task": "copying", "delay": 1e9})"), contains("'delay' is 1000000000.0"));
  CHECK_THAT(message(R"({"task": "copying", "delay": 0})"), contains("at least 1"));
  // Bytes of such a batch were counted modulo 2^64, and the task wrote beyond them.
  for (const char* delay : {"4611686018427387948", "9223372036854775807", "16777216"}) {
    CAPTURE(delay);
    CHECK_THAT(message(fmt::format(R"({{"task": "copying", "delay": {}}})", delay).c_str()),
               contains("128 sequences") && contains("at most 2147483647 steps"));
  }
  CHECK_THAT(error_message<ValueError>([] { make_task(R"({"task": "copying"})", {.batch = 0}); }),
             contains("batch"));
  CHECK_THAT(error_message<ValueError>([] { CopyingTask({.delay = 0}); }),
             contains("delay is 0") && contains("at least 1"));

  const Tensor<std::int32_t> order(Shape{1});
  const TaskSource source{.input_order = order};
  CHECK_THAT(error_message<ValueError>([&] { make_task(R"({"task": "copying"})", source); }),
             contains("input order"));
}
