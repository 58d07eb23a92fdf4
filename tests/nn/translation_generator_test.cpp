#include <initializer_list>
#include <utility>

#include "nn/translation_batch.hpp"
#include "nn/translation_models.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

constexpr Index given_steps = 5, answered_steps = 4, sentence_count = 3;

/// Products of at most nine entries, a softmax, and as many steps; the largest state and logarithm of a
/// probability is below 10.
template <class T>
double generator_bound() {
  return 10 * static_cast<double>(answered_steps) * tolerance::rounding<T>(9);
}

/// Everything that the generator returns for the batch's targets, [T, B, V].
template <class T>
Tensor<T> generated(typename EncoderDecoder<T>::Generator& generator, const Batch& batch) {
  const TensorView<const std::int32_t> target = batch.integers(batch_names::target);
  Tensor<T> all;
  for (Index t = 0; t < target.shape()[0]; ++t) {
    const TensorView<const T> step = generator.step(target[t]);
    if (t == 0) all.resize({target.shape()[0], step.shape()[0], step.shape()[1]});
    copy<T>(step, all.view()[t]);
  }
  return all;
}

/// Sequence i is sequence rows[i] of `batch`.
Batch selected(const Batch& batch, const std::vector<Index>& rows) {
  Batch result;
  for (const std::string_view name : {batch_names::source, batch_names::target}) {
    const TensorView<const std::int32_t> from = batch.integers(name);
    Tensor<std::int32_t>& to = result.integers(name);
    to.resize({from.shape()[0], static_cast<Index>(rows.size())});
    for (Index t = 0; t < to.shape()[0]; ++t) {
      for (Index i = 0; i < to.shape()[1]; ++i) to(t, i) = from(t, rows[static_cast<std::size_t>(i)]);
    }
  }
  Tensor<std::int32_t>& lengths = result.integers(batch_names::source_lengths);
  lengths.resize({static_cast<Index>(rows.size())});
  for (Index i = 0; i < lengths.size(); ++i)
    lengths(i) = batch.integers(batch_names::source_lengths)(rows[static_cast<std::size_t>(i)]);
  return result;
}

}  // namespace

TEST_CASE("an answer step by step has the probabilities of the whole", "[nn][translation]") {
  for (const EncoderDecoderOptions& options : translation_models()) {
    EncoderDecoder<double> model(Device::cpu(), options, 5);
    Batch batch = translation_batch(options, given_steps, answered_steps, sentence_count, false);
    batch.integers(batch_names::source_lengths) = mixed_lengths(given_steps, sentence_count);
    EncoderDecoder<double>::Generator generator(model);
    generator.start(batch);
    const Tensor<double> found = generated<double>(generator, batch);
    // The loss of one class at one place is the logarithm of its probability there.
    Tensor<double> expected(found.shape());
    Tensor<std::int32_t>& classes = batch.integers(batch_names::classes);
    std::fill(classes.begin(), classes.end(), -1);
    for (Index t = 0; t < answered_steps; ++t) {
      for (Index b = 0; b < sentence_count; ++b) {
        for (std::int32_t c = 0; c < 5; ++c) {
          classes(t, b) = c;
          expected(t, b, c) = -model.loss(batch).sum;
        }
        classes(t, b) = -1;
      }
    }
    CAPTURE(options.encoder.size(), options.decoder.size(), options.tied);
    CHECK(relative_error(found, expected) <= generator_bound<double>());
  }
}

TEST_CASE("a generator's attention weights are a distribution over the live steps", "[nn][translation]") {
  const EncoderDecoderOptions options = translation_models()[0];
  EncoderDecoder<double> model(Device::cpu(), options, 5);
  Batch batch = translation_batch(options, given_steps, answered_steps, sentence_count, false);
  batch.integers(batch_names::source_lengths) = mixed_lengths(given_steps, sentence_count);
  EncoderDecoder<double>::Generator generator(model);
  generator.start(batch);
  generator.step(std::as_const(batch).integers(batch_names::target)[0]);
  const TensorView<const double> weights = generator.attention();
  REQUIRE(weights.shape() == Shape{sentence_count, given_steps});
  for (Index b = 0; b < sentence_count; ++b) {
    double sum = 0;
    for (Index s = 0; s < given_steps; ++s) {
      sum += weights(b, s);
      CHECK((weights(b, s) > 0) == (s < batch.integers(batch_names::source_lengths)(b)));
    }
    CHECK(sum == Approx(1).epsilon(tolerance::rounding<double>(given_steps)));
  }
}

TEST_CASE("a generator goes on with the answers that are selected", "[nn][translation]") {
  const std::vector<Index> rows = GENERATE(std::vector<Index>{2, 0, 0, 1, 2}, std::vector<Index>{1});
  for (const EncoderDecoderOptions& options : translation_models()) {
    EncoderDecoder<double> model(Device::cpu(), options, 5);
    Batch batch = translation_batch(options, given_steps, answered_steps, sentence_count, false);
    batch.integers(batch_names::source_lengths) = mixed_lengths(given_steps, sentence_count);
    const Batch others = selected(batch, rows);
    EncoderDecoder<double>::Generator generator(model), expected(model);
    generator.start(batch);
    expected.start(others);
    for (Index t = 0; t < answered_steps; ++t) {
      // Once and again: what is selected can be selected from.
      const bool from_batch = t < 2;
      const auto symbols = (from_batch ? batch : others).integers(batch_names::target)[t];
      const TensorView<const double> step = generator.step(symbols);
      const TensorView<const double> wanted = expected.step(others.integers(batch_names::target)[t]);
      for (Index i = 0; !from_batch && i < wanted.shape()[0]; ++i)
        CHECK(relative_error(step[i], wanted[i]) <= generator_bound<double>());
      if (t == 1) {
        generator.select(rows);
        CHECK(generator.batch() == static_cast<Index>(rows.size()));
      }
    }
  }
}

TEST_CASE("a generator leaves the model's own losses and gradients alone", "[nn][translation]") {
  const EncoderDecoderOptions options = translation_models()[0];
  EncoderDecoder<double> model(Device::cpu(), options, 5);
  const Batch batch = translation_batch(options, given_steps, answered_steps, sentence_count, true);
  EncoderDecoder<double>::Generator first(model), second(model);
  first.start(batch);
  second.start(batch);
  const double loss = model.loss_and_gradient(batch).sum;
  const Tensor<double> gradient = model.parameters().gradients().copy();
  const Tensor<double> found = generated<double>(first, batch);
  CHECK(equal(generated<double>(second, batch), found));
  CHECK(model.last_loss()(0) == loss);
  CHECK(equal(model.parameters().gradients(), gradient));
}

TEST_CASE("a generator prepares its model once, and needs no other preparation", "[nn][translation]") {
  const EncoderDecoderOptions options = translation_models()[0];
  EncoderDecoder<double> model(Device::cpu(), options, 5);
  const Batch batch = translation_batch(options, given_steps, answered_steps, sentence_count, false);
  EncoderDecoder<double>::Generator generator(model);
  generator.start(batch);
  const Tensor<double> found = generated<double>(generator, batch);
  // The factors of Q are there. What they were made of is not read again: of zeros there is no Q.
  bool changed = false;
  for (const Parameter& parameter : model.parameters().list()) {
    if (!parameter.name.ends_with("/reflection_vectors")) continue;
    std::ranges::fill(model.parameters().value(model.parameters().find(parameter.name)), 0);
    changed = true;
  }
  REQUIRE(changed);
  generator.start(batch);
  CHECK(equal(generated<double>(generator, batch), found));
  CHECK_THROWS_AS(EncoderDecoder<double>::Generator(model), ValueError);
}

TEST_CASE("a generator refuses what does not fit", "[nn][translation]") {
  const EncoderDecoderOptions options = translation_models()[0];
  EncoderDecoder<float> model(Device::cpu(), options, 5);
  const Batch batch = translation_batch(options, given_steps, answered_steps, sentence_count, true);
  EncoderDecoder<float>::Generator generator(model);
  Tensor<std::int32_t> symbols(Shape{sentence_count});
  CHECK_THROWS_WITH(generator.step(symbols), contains("start"));
  CHECK_THROWS_WITH(generator.attention(), contains("after a step"));
  CHECK_THROWS_AS(generator.start(Batch()), ValueError);
  generator.start(batch);
  CHECK_THROWS_WITH(generator.attention(), contains("after a step"));
  symbols(1) = 5;
  CHECK_THROWS_WITH(generator.step(symbols), contains("symbol 5"));
  CHECK_THROWS_AS(generator.step(Tensor<std::int32_t>(Shape{2})), ShapeError);
  for (const std::vector<Index>& rows : {std::vector<Index>{}, {0, 3}, {-1}})
    CHECK_THROWS_AS(generator.select(rows), ValueError);
  CHECK(generator.batch() == sentence_count);
}
