#include "orthornn/tasks/data_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "tasks/own_files.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Twenty sequences of three steps and two columns, with column 0 telling sequence and step: 10 i + t.
struct TwentySequences {
  Tensor<float> features = Tensor<float>(Shape{20, 3, 2});
  Tensor<std::int32_t> classes = Tensor<std::int32_t>(Shape{20});

  TwentySequences() {
    for (Index i = 0; i < 20; ++i) {
      classes(i) = static_cast<std::int32_t>(i % 2);
      for (Index t = 0; t < 3; ++t) {
        features(i, t, 0) = static_cast<float>(10 * i + t);
        features(i, t, 1) = 5;
      }
    }
  }
  SequenceView view() const { return {.features = features, .classes = classes}; }
};

/// The sequences of a batch, by their first number as it is without normalization.
std::vector<Index> numbers_of(const Batch& batch) {
  std::vector<Index> numbers;
  const auto features = batch.reals(batch_names::features);
  for (Index b = 0; b < features.shape()[1]; ++b)
    numbers.push_back(static_cast<Index>(features(0, b, 0)) / 10);
  return numbers;
}

}  // namespace

TEST_CASE("Own sequences are split once, and an epoch has each training sequence once", "[data]") {
  const TwentySequences data;
  const DataTask task(data.view(), {.normalization = Normalization::none, .batch = 4});
  CHECK(task.data().features == 2);
  CHECK(task.data().classes == 2);
  CHECK_FALSE(task.data().every_step);
  CHECK(task.length() == 3);
  REQUIRE(task.batches_per_epoch() == 4);  // 16 of 20 are left
  Batch batch;
  std::set<Index> seen;
  const auto add_all = [&] {
    for (const Index i : numbers_of(batch)) CHECK(seen.insert(i).second);
  };
  std::vector<Index> first_order, second_order;
  for (std::uint64_t step = 0; step < 8; ++step) {
    task.training_batch(step, batch);
    CHECK(batch.reals(batch_names::features).shape() == Shape{3, 4, 2});
    CHECK(batch.integers(batch_names::lengths).empty());
    for (Index b = 0; b < 4; ++b)
      CHECK(batch.integers(batch_names::classes)(b) == numbers_of(batch)[static_cast<std::size_t>(b)] % 2);
    for (const Index i : numbers_of(batch)) (step < 4 ? first_order : second_order).push_back(i);
    if (step < 4) add_all();
  }
  CHECK(first_order != second_order);
  CHECK(std::set(second_order.begin(), second_order.end()) == seen);
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    REQUIRE(task.evaluation_batches(set) == 1);
    task.evaluation_batch(set, 0, batch);
    CHECK(batch.reals(batch_names::features).shape()[1] == 2);
    add_all();
  }
  CHECK(seen.size() == 20);
  // A batch depends on its step alone.
  task.training_batch(1, batch);
  CHECK(numbers_of(batch) == std::vector(first_order.begin() + 4, first_order.begin() + 8));
}

TEST_CASE("Sequences of a group are on one side", "[data]") {
  const TwentySequences data;
  Tensor<std::int32_t> groups(Shape{20});
  for (Index i = 0; i < 20; ++i) groups(i) = static_cast<std::int32_t>(i / 4);
  SequenceView view = data.view();
  view.groups = groups;
  const DataTask task(view, {.normalization = Normalization::none, .batch = 4});
  std::set<Index> validation, test;
  Batch batch;
  task.evaluation_batch(HeldOut::validation, 0, batch);
  for (const Index i : numbers_of(batch)) validation.insert(i / 4);
  task.evaluation_batch(HeldOut::test, 0, batch);
  for (const Index i : numbers_of(batch)) test.insert(i / 4);
  CHECK(validation.size() == 1);
  CHECK(test.size() == 1);
  CHECK(validation != test);
  CHECK(task.batches_per_epoch() == 3);
}

TEST_CASE("Numbers are normalized by the training data, and constant columns stay constant", "[data]") {
  const TwentySequences data;
  const DataTask task(data.view(), {.batch = 16});
  Batch batch;
  task.training_batch(0, batch);
  const Tensor<float>& x = batch.reals(batch_names::features);
  double sum = 0, square = 0;
  for (Index t = 0; t < 3; ++t) {
    for (Index b = 0; b < 16; ++b) {
      sum += x(t, b, 0);
      square += x(t, b, 0) * x(t, b, 0);
      CHECK(x(t, b, 1) == 0);
    }
  }
  CHECK(std::abs(sum / 48) < 1e-6);
  CHECK(std::abs(square / 48 - 1) < 1e-5);

  const DataTask ranged(data.view(), {.normalization = Normalization::range, .batch = 16});
  ranged.training_batch(0, batch);
  CHECK(*std::ranges::min_element(x) == 0);
  CHECK(*std::ranges::max_element(x) == 1);
  // As a caller's own features are.
  Tensor<float> own(Shape{1, 1, 2});
  own(0, 0, 0) = ranged.statistics().features.shift[0] + ranged.statistics().features.divisor[0];
  own(0, 0, 1) = 5;
  CHECK(ranged.own_features(own)(0, 0, 0) == 1);
}

TEST_CASE("Sequences of different lengths are padded, and do not count beyond them", "[data]") {
  // Sequence i has 1 + i % 3 steps of the value i, and a number at each.
  Tensor<std::int32_t> lengths(Shape{30});
  std::vector<float> steps;
  for (Index i = 0; i < 30; ++i) {
    lengths(i) = static_cast<std::int32_t>(1 + i % 3);
    steps.insert(steps.end(), static_cast<std::size_t>(lengths(i)), static_cast<float>(i));
  }
  const ConstTensorView<float> rows(steps.data(), {std::ssize(steps), 1});
  const DataTask task({.features = rows, .lengths = lengths, .every_step = true, .values = rows},
                      {.normalization = Normalization::none, .batch = 5});
  CHECK(task.length() == 3);
  Batch batch;
  std::multiset<Index> seen;
  for (Index step = 0; step < *task.batches_per_epoch(); ++step) {
    task.training_batch(static_cast<std::uint64_t>(step), batch);
    const auto x = std::as_const(batch).reals(batch_names::features);
    const auto of_batch = std::as_const(batch).integers(batch_names::lengths);
    REQUIRE(of_batch.size() == x.shape()[1]);
    for (Index b = 0; b < of_batch.size(); ++b) {
      const auto i = static_cast<Index>(x(0, b, 0));
      seen.insert(i);
      CHECK(of_batch(b) == lengths(i));
      for (Index t = 0; t < x.shape()[0]; ++t) {
        CHECK(x(t, b, 0) == (t < lengths(i) ? static_cast<float>(i) : 0));
        CHECK(std::as_const(batch).reals(batch_names::values)(t, b, 0) == x(t, b, 0));
      }
    }
  }
  CHECK(seen.size() == 24);
  CHECK(std::set(seen.begin(), seen.end()).size() == 24);
  // A model that answers 0 has the root mean square of the targets as its error.
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {Gru{.hidden_size = 2}}));
  for (float& parameter : model.parameters().values()) parameter = 0;
  double sum = 0, count = 0;
  task.evaluation_batch(HeldOut::test, 0, batch);
  for (Index b = 0; b < batch.integers(batch_names::lengths).size(); ++b) {
    const double live = batch.integers(batch_names::lengths)(b);
    sum += live * std::pow(batch.reals(batch_names::values)(0, b, 0), 2);
    count += live;
  }
  const Evaluation found = evaluate(model, task, HeldOut::test);
  CHECK(*found.metric("rmse") == Approx(std::sqrt(sum / count)));
  CHECK(found.loss == Approx(sum / count));
}

TEST_CASE("A forecast has the inputs of later steps as targets, for vectors and for symbols", "[data]") {
  const TwentySequences data;
  const DataTask task({.features = data.features},
                      {.ahead = 2, .normalization = Normalization::none, .batch = 4});
  Batch batch;
  task.training_batch(0, batch);
  REQUIRE(batch.reals(batch_names::values).shape() == Shape{1, 4, 2});
  CHECK(task.data().every_step);
  CHECK(task.length() == 1);
  for (Index b = 0; b < 4; ++b)
    CHECK(batch.reals(batch_names::values)(0, b, 0) == batch.reals(batch_names::features)(0, b, 0) + 2);

  Tensor<std::int32_t> symbols(Shape{20, 4});
  for (Index i = 0; i < symbols.size(); ++i) symbols.data()[i] = static_cast<std::int32_t>(i % 5);
  const DataTask next({.symbols = symbols}, {.ahead = 1, .batch = 4});
  CHECK(next.data().symbols == 5);
  CHECK(next.data().classes == 5);
  next.training_batch(0, batch);
  for (Index b = 0; b < 4; ++b) {
    for (Index t = 0; t < 3; ++t) {
      CHECK(batch.integers(batch_names::classes)(t, b) ==
            (batch.integers(batch_names::symbols)(t, b) + 1) % 5);
    }
  }
}

TEST_CASE("Missing inputs are refused by their place, zero, or marked", "[data]") {
  TwentySequences data;
  data.features(7, 1, 0) = missing_number;
  CHECK_THAT(error_message<ValueError>([&] { DataTask(data.view(), {.batch = 4}); }),
             contains("sequence 7: input 0 of step 1 is missing; expected a number, or --missing"));
  for (const Missing how : {Missing::zero, Missing::mask}) {
    const DataTask task(data.view(), {.missing = how, .batch = 16});
    CHECK(task.data().features == (how == Missing::mask ? 4 : 2));
    Tensor<float> own(Shape{1, 2});
    own(0, 0) = missing_number;
    own(0, 1) = 5;
    const Tensor<float> prepared = task.own_features(own);
    CHECK(prepared(0, 0) == 0);
    if (how == Missing::mask) {
      CHECK(prepared(0, 2) == 1);
      CHECK(prepared(0, 3) == 0);
    }
  }
}

TEST_CASE("Own sequences that cannot be learned are refused", "[data]") {
  const TwentySequences data;
  const auto message = [&](const SequenceView& view, const DataTaskOptions& options = {.batch = 4}) {
    return error_message<Error>([&] { DataTask(view, options); });
  };
  CHECK_THAT(message({.features = data.features}), contains("either classes or values"));
  CHECK_THAT(message({.classes = data.classes}), contains("either features or symbols"));
  const Tensor<std::int32_t> few(Shape{19});
  CHECK_THAT(message({.features = data.features, .classes = few}), contains("[20]"));
  CHECK_THAT(message(data.view(), {.batch = 17}), contains("16 sequences to train on"));
  CHECK_THAT(message(data.view(), {.validation_part = 0.5, .test_part = 0.5, .batch = 1}),
             contains("at least one to train on"));
  CHECK_THAT(message(data.view(), {.validation_part = 0, .batch = 4}), contains("validation part"));
  CHECK_THAT(message({.features = data.features}, {.ahead = 3, .batch = 4}), contains("3 steps ahead"));
  TwentySequences negative;
  negative.classes(3) = -1;
  CHECK_THAT(message(negative.view()), contains("sequence 3: its target is -1, so it does not count"));
  negative.classes(3) = 1700000000;
  CHECK_THAT(message(negative.view()), contains("sequence 3: its target is class 1700000000"));
  Tensor<float> values(Shape{20, 3, 1});
  values(5, 2, 0) = missing_number;
  CHECK_THAT(message({.features = data.features, .every_step = true, .values = values}),
             contains("sequence 5: target 0 of step 2 is missing"));
  Tensor<std::int32_t> unlabeled(Shape{20, 3});
  for (Index t = 0; t < 3; ++t) unlabeled(9, t) = -1;
  CHECK_THAT(message({.features = data.features, .every_step = true, .classes = unlabeled}),
             contains("sequence 9: none of its targets counts"));
}

TEST_CASE("Large numbers whose differences float does not keep are refused", "[data]") {
  const auto message = [](float first, float step, bool are_targets) {
    TwentySequences data;
    Tensor<float> values(Shape{20, 1});
    Tensor<float>& changed = are_targets ? values : data.features;
    for (Index i = 0; i < changed.size(); ++i) changed.data()[i] = first + step * static_cast<float>(i % 50);
    const SequenceView view = are_targets ? SequenceView{.features = data.features, .values = values}
                                          : SequenceView{.features = data.features, .classes = data.classes};
    return error_message<Error>([&] { DataTask(view, {.batch = 4}); });
  };
  // Times of one hour since 1970, in seconds: float has every 128th.
  CHECK_THAT(message(1.7e9F, 72, false), contains("input 0 has numbers near 1.7") &&
                                             contains("multiples of 128 alone") && contains("begin at 0"));
  CHECK_THAT(message(1.7e9F, 72, true), contains("target 0 has numbers near 1.7"));
  CHECK_THAT(message(-1.7e9F, 0, false), contains("input 0 has numbers near -1.7"));
  // Times of a month, and whole numbers that float has.
  CHECK(message(1.7e9F, 52000, false).empty());
  CHECK(message(16777000, 1, false).empty());
  CHECK(message(1e6F, 0, true).empty());
}

TEST_CASE("Held-out data with a class or symbol that no training sequence has are refused", "[data]") {
  TwentySequences rare;
  Batch batch;
  DataTask(rare.view(), {.normalization = Normalization::none, .batch = 4})
      .evaluation_batch(HeldOut::test, 0, batch);
  const Index held_out = numbers_of(batch)[0];
  // The class is beyond those of the training, or between them.
  for (const std::int32_t number : {7, 1}) {
    for (Index i = 0; i < 20; ++i)
      rare.classes(i) = i == held_out ? number : static_cast<std::int32_t>(2 * (i % 2));
    CHECK_THAT(error_message<ValueError>([&] { DataTask(rare.view(), {.batch = 4}); }),
               contains(fmt::format("sequence {}: the target is class '{}', which no training sequence has",
                                    held_out, number)));
  }
  Tensor<std::int32_t> symbols(Shape{20, 3});
  for (Index i = 0; i < 20; ++i) symbols(i, 1) = 2;
  symbols(held_out, 2) = 1;
  CHECK_THAT(error_message<ValueError>([&] { DataTask({.symbols = symbols}, {.ahead = 1, .batch = 4}); }),
             contains(fmt::format("sequence {}: step 2 is symbol 1, which no training", held_out)));
}

TEST_CASE("Sequences that are given as validation and test data are not drawn", "[data]") {
  const TwentySequences data;
  SequenceView view = data.view();
  const auto held_out = [&](const DataTask& task, HeldOut set) {
    Batch batch;
    task.evaluation_batch(set, 0, batch);
    std::vector<Index> numbers = numbers_of(batch);
    std::ranges::sort(numbers);
    return numbers;
  };
  view.validation = 3;
  view.test = 4;
  const DataTaskOptions options{.normalization = Normalization::none, .batch = 5};
  const DataTask given(view, options);
  CHECK(held_out(given, HeldOut::validation) == std::vector<Index>{13, 14, 15});
  CHECK(held_out(given, HeldOut::test) == std::vector<Index>{16, 17, 18, 19});
  CHECK(given.batches_per_epoch() == 2);  // of thirteen
  // The test data are drawn of the seventeen others.
  view.test = 0;
  const DataTask drawn(view, options);
  CHECK(held_out(drawn, HeldOut::validation) == std::vector<Index>{17, 18, 19});
  REQUIRE(held_out(drawn, HeldOut::test).size() == 2);
  CHECK(std::ranges::max(held_out(drawn, HeldOut::test)) < 17);
  view.validation = 20;
  CHECK_THAT(error_message<ValueError>([&] { DataTask(view, options); }),
             contains("at least one to train on"));
}

TEST_CASE("Classes are counted one by one, and a tie is no answer", "[data]") {
  TwentySequences data;
  for (Index i = 0; i < 20; ++i) data.classes(i) = static_cast<std::int32_t>(i % 4);
  const DataTask task({.features = data.features, .classes = data.classes}, {.batch = 4});
  const auto values_of = [&](const std::vector<std::int32_t>& classes, const std::vector<Index>& answers) {
    Batch batch;
    batch.integers(batch_names::classes).reserve({std::ssize(classes)});
    std::ranges::copy(classes, batch.integers(batch_names::classes).begin());
    Tensor<float> outputs(Shape{std::ssize(classes), 4});
    for (Index i = 0; i < std::ssize(answers); ++i) {
      if (answers[static_cast<std::size_t>(i)] >= 0) outputs(i, answers[static_cast<std::size_t>(i)]) = 1;
    }
    Tensor<double> sums(task.counters());
    task.count_metrics(outputs, batch, sums);
    return task.metric_values(sums, 0);
  };
  REQUIRE(task.metrics().size() == 3);
  CHECK(task.metrics()[1].name == "balanced_accuracy");
  CHECK(task.metrics()[2].name == "macro_f1");
  // Of class 0 two of three are right, of class 1 one of one, of class 2 none of two, of which one is a tie.
  std::vector<double> found = values_of({0, 0, 0, 1, 2, 2}, {0, 0, 1, 1, 0, -1});
  REQUIRE(found.size() == 3);
  CHECK(found[0] == Approx(3.0 / 6));
  CHECK(found[1] == Approx((2.0 / 3 + 1 + 0) / 3));
  // Of F1: precision and recall of class 0 are 2/3, of class 1 they are 1/2 and 1.
  CHECK(found[2] == Approx((2.0 / 3 + 2.0 / 3 + 0) / 3));
  // Class 3 is answered and does not occur: it has an F1, and no recall.
  found = values_of({0, 0}, {0, 3});
  CHECK(found[1] == Approx(0.5));
  CHECK(found[2] == Approx((2.0 / 3 + 0) / 2));
  // What is negative does not count.
  found = values_of({0, -1}, {0, 3});
  CHECK(found == std::vector<double>{1, 1, 1});
  CHECK(std::isnan(values_of({-1}, {0})[0]));
}

TEST_CASE("More than a thousand classes are not counted one by one", "[data]") {
  for (const Index count : {1000, 1001}) {
    Tensor<float> features(Shape{3 * count, 1, 1});
    Tensor<std::int32_t> classes(Shape{3 * count});
    for (Index i = 0; i < 3 * count; ++i) classes(i) = static_cast<std::int32_t>(i % count);
    SequenceView view{.features = features, .classes = classes};
    view.validation = view.test = 1;
    const DataTask task(view, {.batch = 1});
    CHECK(task.metrics().size() == (count == 1000 ? 3 : 1));
    CHECK(task.counters() == (count == 1000 ? Shape{1000, 3} : Shape{1, 2}));
  }
}

TEST_CASE("A forecast of symbols has accuracy, perplexity, and bits a symbol", "[data]") {
  Tensor<std::int32_t> symbols(Shape{20, 4});
  for (Index i = 0; i < symbols.size(); ++i) symbols.data()[i] = static_cast<std::int32_t>(i % 5);
  const DataTask task({.symbols = symbols}, {.ahead = 1, .batch = 4});
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {Gru{.hidden_size = 2}}));
  for (float& parameter : model.parameters().values()) parameter = 0;
  // All five symbols are equally likely to it, and a tie is no answer.
  const Evaluation found = evaluate(model, task, HeldOut::test);
  CHECK(found.metric("accuracy") == 0);
  CHECK(*found.metric("perplexity") == Approx(5));
  CHECK(*found.metric("bits_per_symbol") == Approx(std::log2(5)));
}

TEST_CASE("A network learns own sequences: which of two numbers came first", "[data]") {
  Tensor<float> features(Shape{200, 2, 1});
  Tensor<std::int32_t> classes(Shape{200});
  for (Index i = 0; i < 200; ++i) {
    classes(i) = static_cast<std::int32_t>(i % 2);
    features(i, i % 2, 0) = 1 + static_cast<float>(i) / 200;
  }
  const DataTask task({.features = features, .classes = classes}, {.batch = 20});
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {OrthogonalCell{.hidden_size = 8}}));
  Trainer trainer(model, task, {.optimizer = Adam{.lr = 1e-2}});
  trainer.run(100, [](const TrainingStep&) { return true; });
  CHECK(*evaluate(model, task, HeldOut::test).metric("accuracy") == 1);
}

namespace {

/// One symbol after the other, in three sequences for the three parts. Symbol t of a part is t modulo 50.
struct LongSequences {
  Tensor<std::int32_t> symbols, lengths = Tensor<std::int32_t>(Shape{3});

  LongSequences() : symbols(Shape{100 + 21 + 13}) {
    Index at = 0;
    for (const Index length : {100, 21, 13}) {
      for (Index t = 0; t < length; ++t) symbols(at++) = static_cast<std::int32_t>(t % 50);
    }
    lengths(0) = 100;
    lengths(1) = 21;
    lengths(2) = 13;
  }
  SequenceView view() const {
    return {.symbols = symbols, .lengths = lengths, .validation = 1, .test = 1, .symbol_count = 60};
  }
};

}  // namespace

TEST_CASE("A long sequence is read in pieces, each step once", "[data]") {
  const LongSequences data;
  const DataTask task(data.view(), {.ahead = 1, .cut = 10, .batch = 3});
  CHECK(task.data().symbols == 60);
  CHECK(task.data().classes == 60);
  CHECK(task.data().every_step);
  CHECK(task.length() == 10);
  REQUIRE(task.batches_per_epoch() == 4);  // 99 steps with a target: three streams of 33
  Batch batch;
  for (const std::uint64_t epoch : {0, 1}) {
    for (Index piece = 0; piece < 4; ++piece) {
      task.training_batch(4 * epoch + static_cast<std::uint64_t>(piece), batch);
      CHECK(batch.piece() == piece);
      const auto symbols = std::as_const(batch).integers(batch_names::symbols);
      const auto classes = std::as_const(batch).integers(batch_names::classes);
      REQUIRE(symbols.shape() == Shape{piece < 3 ? 10 : 3, 3});
      for (Index t = 0; t < symbols.shape()[0]; ++t) {
        for (Index b = 0; b < 3; ++b) {
          const Index step = 33 * b + 10 * piece + t;
          CHECK(symbols(t, b) == step % 50);
          CHECK(classes(t, b) == (step + 1) % 50);
        }
      }
    }
  }
  // Held-out data are short, so that they are one stream.
  CHECK(task.evaluation_batches(HeldOut::validation) == 2);
  task.evaluation_batch(HeldOut::test, 1, batch);
  CHECK(batch.piece() == 1);
  const auto rest = std::as_const(batch).integers(batch_names::symbols);
  REQUIRE(rest.shape() == Shape{2, 1});
  CHECK(rest(1, 0) == 11);
}

TEST_CASE("Numbers of a long sequence are read in pieces", "[data]") {
  Tensor<float> features(Shape{40, 1}), values(Shape{40, 2});
  for (Index t = 0; t < 40; ++t) {
    features(t, 0) = static_cast<float>(t);
    values(t, 0) = static_cast<float>(100 + t);
  }
  Tensor<std::int32_t> lengths(Shape{3});
  for (Index i = 0; i < 3; ++i) lengths(i) = i == 0 ? 20 : 10;
  const DataTask task({.features = features,
                       .lengths = lengths,
                       .every_step = true,
                       .values = values,
                       .validation = 1,
                       .test = 1},
                      {.cut = 4, .normalization = Normalization::none, .batch = 2});
  REQUIRE(task.batches_per_epoch() == 3);  // streams of 10 steps
  Batch batch;
  task.training_batch(1, batch);
  const auto x = std::as_const(batch).reals(batch_names::features);
  const auto y = std::as_const(batch).reals(batch_names::values);
  REQUIRE(x.shape() == Shape{4, 2, 1});
  REQUIRE(y.shape() == Shape{4, 2, 2});
  CHECK(x(0, 0, 0) == 4);
  CHECK(x(3, 1, 0) == 17);
  CHECK(y(3, 1, 0) == 117);
}

TEST_CASE("What cannot be cut into pieces is refused", "[data]") {
  const LongSequences data;
  const auto error = [&](const SequenceView& view, const DataTaskOptions& options) {
    return error_message<ValueError>([&] { const DataTask task(view, options); });
  };
  CHECK_THAT(error(data.view(), {.ahead = 1, .cut = 10, .batch = 10}), contains("99 steps to train on"));
  CHECK_THAT(error(data.view(), {.ahead = 1, .cut = -1}), contains("pieces of -1"));
  SequenceView drawn = data.view();
  drawn.validation = drawn.test = 0;
  Tensor<std::int32_t> short_lengths(Shape{67});
  for (std::int32_t& length : short_lengths) length = 2;
  drawn.lengths = short_lengths;
  CHECK_THAT(error(drawn, {.ahead = 1, .cut = 1, .batch = 1}), contains("one long sequence"));
}

TEST_CASE("Evaluations between pieces leave a training as it is", "[data]") {
  const LongSequences data;
  const DataTask task(data.view(), {.ahead = 1, .cut = 10, .batch = 3});
  const auto losses = [&](bool evaluates) {
    SequenceModel<float> model(Device::cpu(),
                               model_for(task.data(), {OrthogonalCell{.hidden_size = 8}, Gru{4}}));
    Trainer trainer(model, task, {.optimizer = Adam{.lr = 1e-2}});
    std::vector<double> result;
    trainer.run(6, [&](const TrainingStep& step) {
      result.push_back(step.loss());
      if (evaluates) trainer.evaluate();
      return true;
    });
    return result;
  };
  CHECK(losses(true) == losses(false));
}

TEST_CASE("Symbols beyond the number of symbols are refused", "[data]") {
  const LongSequences data;
  SequenceView view = data.view();
  view.symbol_count = 20;
  CHECK_THAT(
      error_message<ValueError>([&] { const DataTask task(view, {.ahead = 1, .cut = 10, .batch = 3}); }),
      contains("symbols up to 49"));
}
