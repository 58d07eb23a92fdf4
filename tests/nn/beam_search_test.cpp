#include "orthornn/nn/beam_search.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "nn/translation_batch.hpp"
#include "nn/translation_models.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

using Answer = std::vector<std::int32_t>;

const AnswerSymbols answer_symbols{.begin = 2, .end = 3, .excluded = {0, 2}};

EncoderDecoderOptions with_symbols(EncoderDecoderOptions options, Index target_symbols) {
  options.target_symbols = target_symbols;
  return options;
}

/// Its probabilities differ by orders of magnitude, as those of trained models do.
std::unique_ptr<EncoderDecoder<double>> sharp_model(const EncoderDecoderOptions& options, std::uint64_t seed,
                                                    Index target_symbols = 7) {
  auto model =
      std::make_unique<EncoderDecoder<double>>(Device::cpu(), with_symbols(options, target_symbols), seed);
  ParameterSet<double>& parameters = model->parameters();
  for (std::size_t i = 0; i < parameters.list().size(); ++i) {
    const std::string& name = parameters.list()[i].name;
    if (!name.ends_with("vectors") && !name.starts_with("output/")) continue;
    if (name.ends_with("reflection_vectors")) continue;
    for (double& x : parameters.value(static_cast<Index>(i))) x *= 4;
  }
  return model;
}

/// Sources alone, with 1 to all steps.
Batch sources(const EncoderDecoderOptions& options, Index length, Index batch, std::uint64_t seed) {
  const Batch both = translation_batch(options, length, 1, batch, false, seed);
  Batch result;
  Tensor<std::int32_t>& source = result.integers(batch_names::source);
  source.resize({length, batch});
  copy<std::int32_t>(both.integers(batch_names::source), source);
  Tensor<std::int32_t>& lengths = result.integers(batch_names::source_lengths);
  lengths.resize({batch});
  for (Index b = 0; b < batch; ++b) lengths(b) = static_cast<std::int32_t>(length - b % length);
  return result;
}

Batch one_of(const Batch& batch, Index b) {
  const auto source = batch.integers(batch_names::source);
  Batch result;
  Tensor<std::int32_t>& own = result.integers(batch_names::source);
  // Without the padding that the others made.
  const std::int32_t length = batch.integers(batch_names::source_lengths)(b);
  own.resize({length, 1});
  for (Index s = 0; s < length; ++s) own(s, 0) = source(s, b);
  return result;
}

/// The logarithm of the probability of an answer, by the model's loss with the answer as target and classes.
double log_probability(EncoderDecoder<double>& model, const Batch& sources_alone, const Answer& answer,
                       bool complete) {
  Batch source = sources_alone.copy(Device::cpu());
  const Index steps = std::ssize(answer) + (complete ? 1 : 0);
  Tensor<std::int32_t>& target = source.integers(batch_names::target);
  Tensor<std::int32_t>& classes = source.integers(batch_names::classes);
  target.resize({steps, 1});
  classes.resize({steps, 1});
  for (Index t = 0; t < steps; ++t) {
    target(t, 0) = t == 0 ? answer_symbols.begin : answer[static_cast<std::size_t>(t - 1)];
    classes(t, 0) = t < std::ssize(answer) ? answer[static_cast<std::size_t>(t)] : answer_symbols.end;
  }
  return -model.loss(source).sum;
}

/// The search reads logarithms of probabilities as floats, each of which is rounded by half of epsilon of
/// itself; sums of them are, too. The rest is rounding in double.
double score_bound(double of) { return tolerance::epsilon<float> * (1 + std::abs(of)); }

/// The most probable symbol at each step, the first of equal ones.
Hypothesis greedy(EncoderDecoder<double>& model, const Batch& source, Index most_symbols) {
  EncoderDecoder<double>::Generator generator(model);
  generator.start(source);
  Hypothesis found;
  Tensor<std::int32_t> last(Shape{1});
  last(0) = answer_symbols.begin;
  for (Index t = 0; t < most_symbols; ++t) {
    const TensorView<const double> row = generator.step(last)[0];
    std::int32_t best = 1;  // the first that is not excluded
    for (const std::int32_t symbol : {3, 4, 5, 6}) {
      if (symbol < row.shape()[0] && row(symbol) > row(best)) best = symbol;
    }
    found.log_probability += row(best);
    found.complete = best == answer_symbols.end;
    if (found.complete) break;
    found.symbols.push_back(best);
    last(0) = best;
  }
  return found;
}

/// All answers of up to `most` symbols, the end included; those of `most` symbols without an end as well.
std::vector<std::pair<Answer, bool>> all_answers(Index most, std::int32_t target_symbols) {
  std::vector<std::pair<Answer, bool>> all;
  std::vector<Answer> live = {{}};
  for (Index t = 1; t <= most; ++t) {
    std::vector<Answer> next;
    for (const Answer& answer : live) {
      all.emplace_back(answer, true);
      for (std::int32_t symbol = 0; symbol < target_symbols; ++symbol) {
        if (symbol == answer_symbols.end || std::ranges::count(answer_symbols.excluded, symbol) > 0) continue;
        next.push_back(answer);
        next.back().push_back(symbol);
      }
    }
    live = std::move(next);
  }
  for (const Answer& answer : live) all.emplace_back(answer, false);
  return all;
}

}  // namespace

TEST_CASE("a beam of one is the greedy search", "[nn][translation]") {
  for (const EncoderDecoderOptions& options : translation_models()) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      const auto made = sharp_model(options, seed);
      EncoderDecoder<double>& model = *made;
      const Batch batch = sources(options, 4, 5, seed);
      const auto found = beam_search(model, batch, answer_symbols, {.beam = 1, .most_symbols = 8});
      REQUIRE(found.size() == 5);
      for (Index b = 0; b < 5; ++b) {
        const auto& hypotheses = found[static_cast<std::size_t>(b)];
        REQUIRE(hypotheses.size() == 1);
        const Hypothesis expected = greedy(model, one_of(batch, b), 8);
        CHECK(hypotheses[0].symbols == expected.symbols);
        CHECK(hypotheses[0].complete == expected.complete);
        CHECK(std::abs(hypotheses[0].log_probability - expected.log_probability) <=
              score_bound(expected.log_probability));
      }
    }
  }
}

TEST_CASE("a beam that is wide enough gives all answers in the order of their scores", "[nn][translation]") {
  const double length_penalty = GENERATE(0.0, 0.6, 1.0);
  // 1 + 3 + 9 + 27 answers with an end, and 81 without one.
  const auto all = all_answers(4, 6);
  REQUIRE(all.size() == 121);
  for (const std::size_t number : {0, 1, 3}) {
    EncoderDecoderOptions options = translation_models()[number];
    const auto made = sharp_model(options, 4, 6);
    EncoderDecoder<double>& model = *made;
    const Batch source = sources(options, 3, 1, 9);
    std::vector<std::pair<double, Answer>> expected;
    for (const auto& [answer, complete] : all) {
      const auto length = static_cast<double>(answer.size() + (complete ? 1 : 0));
      expected.emplace_back(
          log_probability(model, source, answer, complete) / std::pow(length, length_penalty), answer);
    }
    std::ranges::sort(expected, std::ranges::greater());
    const auto found = beam_search(model, source, answer_symbols,
                                   {.beam = 200, .length_penalty = length_penalty, .most_symbols = 4});
    REQUIRE(found.size() == 1);
    REQUIRE(found[0].size() == all.size());
    std::vector<Answer> answers, expected_answers;
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK(std::abs(found[0][i].score - expected[i].first) <= score_bound(expected[i].first));
      answers.push_back(found[0][i].symbols);
      expected_answers.push_back(expected[i].second);
      CHECK(found[0][i].complete == (found[0][i].symbols.size() < 4));
    }
    CHECK((answers[0] == expected_answers[0]));
    // Each answer once.
    std::ranges::sort(answers);
    std::ranges::sort(expected_answers);
    CHECK((answers == expected_answers));
  }
}

TEST_CASE("a beam finds what the greedy search misses, and never less", "[nn][translation][long]") {
  int better = 0;
  for (const EncoderDecoderOptions& options : translation_models()) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      const auto made = sharp_model(options, seed);
      EncoderDecoder<double>& model = *made;
      const Batch batch = sources(options, 4, 3, seed);
      for (const double length_penalty : {0.0, 1.0}) {
        const auto with = [&](Index beam) {
          return beam_search(model, batch, answer_symbols,
                             {.beam = beam, .length_penalty = length_penalty, .most_symbols = 12});
        };
        const auto lowest = with(1);
        for (Index beam = 2; beam <= 8; ++beam) {
          const auto found = with(beam);
          for (std::size_t b = 0; b < found.size(); ++b) {
            REQUIRE_FALSE(found[b].empty());
            CAPTURE(seed, beam, length_penalty, b);
            // Rows of other batches have other rounding errors.
            CHECK(found[b][0].score >= lowest[b][0].score - score_bound(lowest[b][0].score));
            better += found[b][0].score > lowest[b][0].score + score_bound(lowest[b][0].score);
          }
        }
      }
    }
  }
  CHECK(better > 100);
}

TEST_CASE("hypotheses are what their numbers say", "[nn][translation]") {
  for (const EncoderDecoderOptions& options : translation_models()) {
    const auto made = sharp_model(options, 6);
    EncoderDecoder<double>& model = *made;
    const Batch batch = sources(options, 5, 4, 3);
    const double length_penalty = 0.7;
    const auto found = beam_search(model, batch, answer_symbols,
                                   {.beam = 4, .length_penalty = length_penalty, .most_symbols = 9});
    for (Index b = 0; b < 4; ++b) {
      const Batch source = one_of(batch, b);
      const auto& hypotheses = found[static_cast<std::size_t>(b)];
      CHECK((!hypotheses.empty() && hypotheses.size() <= 4));
      CHECK(std::ranges::is_sorted(hypotheses, std::ranges::greater(), &Hypothesis::score));
      for (const Hypothesis& hypothesis : hypotheses) {
        const double expected = log_probability(model, source, hypothesis.symbols, hypothesis.complete);
        CHECK(std::abs(hypothesis.log_probability - expected) <= score_bound(expected));
        const std::size_t length = hypothesis.symbols.size() + (hypothesis.complete ? 1 : 0);
        CHECK(hypothesis.score ==
              Approx(hypothesis.log_probability / std::pow(static_cast<double>(length), length_penalty))
                  .epsilon(1e-14));
        CHECK(length <= 9);
        CHECK((hypothesis.complete || length == 9));
        for (const std::int32_t symbol : hypothesis.symbols)
          CHECK((symbol == 1 || (symbol >= 4 && symbol < 7)));
        REQUIRE(hypothesis.attention.size() == length);
        for (const std::vector<float>& weights : hypothesis.attention) {
          REQUIRE(std::ssize(weights) == batch.integers(batch_names::source_lengths)(b));
          double sum = 0;
          for (const float weight : weights) sum += static_cast<double>(weight);
          // Five weights that were rounded to float.
          CHECK(sum == Approx(1).epsilon(5 * tolerance::epsilon<float>));
        }
      }
    }
  }
}

TEST_CASE("the attention of a hypothesis is its own after beams were reordered", "[nn][translation]") {
  const EncoderDecoderOptions options = translation_models()[1];
  const auto made = sharp_model(options, 8);
  EncoderDecoder<double>& model = *made;
  const Batch source = sources(options, 5, 1, 3);
  const auto found = beam_search(model, source, answer_symbols, {.beam = 6, .most_symbols = 9});
  REQUIRE(found[0].size() == 6);
  for (const Hypothesis& hypothesis : found[0]) {
    EncoderDecoder<double>::Generator generator(model);
    generator.start(source);
    Tensor<std::int32_t> last(Shape{1});
    last(0) = answer_symbols.begin;
    for (std::size_t t = 0; t < hypothesis.attention.size(); ++t) {
      generator.step(last);
      for (Index s = 0; s < 5; ++s) {
        CHECK(std::abs(static_cast<double>(hypothesis.attention[t][static_cast<std::size_t>(s)]) -
                       generator.attention()(0, s)) <= tolerance::epsilon<float>);
      }
      if (t < hypothesis.symbols.size()) last(0) = hypothesis.symbols[t];
    }
  }
}

TEST_CASE("answers do not depend on the other sequences of a batch", "[nn][translation]") {
  const Index beam = GENERATE(1, 3);
  for (const EncoderDecoderOptions& options : translation_models()) {
    const auto made = sharp_model(options, 7);
    EncoderDecoder<double>& model = *made;
    const Batch batch = sources(options, 4, 6, 5);
    const BeamSearchOptions search{.beam = beam, .most_symbols = 10};
    const auto together = beam_search(model, batch, answer_symbols, search);
    for (Index b = 0; b < 6; ++b) {
      const auto alone = beam_search(model, one_of(batch, b), answer_symbols, search);
      const auto& found = together[static_cast<std::size_t>(b)];
      REQUIRE(found.size() == alone[0].size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].symbols == alone[0][i].symbols);
        CHECK(std::abs(found[i].score - alone[0][i].score) <= score_bound(found[i].score));
      }
    }
  }
}

TEST_CASE("an answer has no more symbols than allowed", "[nn][translation]") {
  const EncoderDecoderOptions options = with_symbols(translation_models()[0], 7);
  EncoderDecoder<float> model(Device::cpu(), options, 1);
  // It never ends by itself.
  ParameterSet<float>& parameters = model.parameters();
  parameters.value(parameters.find("output/bias"))(answer_symbols.end) = -1e4F;
  const Batch batch = sources(options, 4, 4, 2);
  const Index beam = GENERATE(1, 3);
  for (const Index most : {1, 2, 7, 1000}) {
    const auto found = beam_search(model, batch, answer_symbols, {.beam = beam, .most_symbols = most});
    for (Index b = 0; b < 4; ++b) {
      for (const Hypothesis& hypothesis : found[static_cast<std::size_t>(b)]) {
        CHECK_FALSE(hypothesis.complete);
        // 3 S + 10 of its own steps, not of the batch's.
        CHECK(std::ssize(hypothesis.symbols) ==
              std::min<Index>(most, 3 * batch.integers(batch_names::source_lengths)(b) + 10));
      }
    }
  }
}

TEST_CASE("equal probabilities are ordered by symbol", "[nn][translation]") {
  EncoderDecoderOptions options = translation_models()[0];
  options.target_symbols = 7;
  EncoderDecoder<float> model(Device::cpu(), options, Undrawn{});
  // All parameters but the reflection vectors are zero, so every symbol is as probable as any other.
  ParameterSet<float>& parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.list().size(); ++i) {
    if (!parameters.list()[i].name.ends_with("reflection_vectors")) continue;
    for (float& x : parameters.value(static_cast<Index>(i))) x = 1;
  }
  const auto found = beam_search(model, sources(options, 3, 1, 2), answer_symbols,
                                 {.beam = 3, .length_penalty = 0, .most_symbols = 2});
  REQUIRE(found[0].size() == 3);
  // The end after one symbol, more probable than two symbols, and then the greedy hypothesis.
  CHECK((found[0][0].symbols.empty() && found[0][0].complete));
  CHECK((found[0][1].symbols == Answer{1, 1}));
}

TEST_CASE("a beam search refuses what cannot be", "[nn][translation]") {
  const EncoderDecoderOptions options = translation_models()[0];
  EncoderDecoder<float> model(Device::cpu(), options, 1);
  const Batch batch = sources(options, 4, 2, 2);
  const auto search = [&](const BeamSearchOptions& with) { beam_search(model, batch, answer_symbols, with); };
  check_says<ValueError>([&] { search({.beam = 0}); }, {"beam", "0"});
  check_says<ValueError>([&] { search({.beam = 1001}); }, {"beam", "1001"});
  check_says<ValueError>([&] { search({.length_penalty = -1}); }, {"length_penalty"});
  check_says<ValueError>([&] { search({.length_penalty = std::nan("")}); }, {"length_penalty"});
  check_says<ValueError>([&] { search({.most_symbols = 0}); }, {"most_symbols", "0"});
  CHECK_THROWS_AS(beam_search(model, Batch(), answer_symbols), ValueError);
  CHECK_THROWS_AS(beam_search(model, batch, AnswerSymbols{.begin = 5, .end = 3}), ValueError);
  Batch too_long = sources(options, 4, 2, 2);
  too_long.integers(batch_names::source_lengths)(1) = 5;
  CHECK_THROWS_AS(beam_search(model, too_long, answer_symbols), ValueError);
}
