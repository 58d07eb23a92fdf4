// Networks whose parameters are constructions of the theory, run as the models that they are.

#include "orthornn/nn/exact_network.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>

#include "nn/exact_weights.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/layers/delta_product_blocks.hpp"
#include "orthornn/tasks/group_representation.hpp"
#include "orthornn/tasks/language_task.hpp"
#include "orthornn/tasks/words_task.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

GroupWords all_words(const std::string& name) {
  GroupWords words{FiniteGroup(name), {}};
  for (Index element = 0; element < words.group.order(); ++element) words.elements.push_back(element);
  return words;
}

/// Right steps of one random word, whose answers the group's own product gives.
template <class T>
Index right_steps(SequenceModel<T>& model, const GroupWords& words, Index length) {
  Batch batch;
  Tensor<std::int32_t>& symbols = batch.integers(batch_names::symbols);
  symbols.reserve({length, 1});
  RandomStream random(1, RandomPurpose::test);
  for (std::int32_t& s : symbols)
    s = static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(words.elements.size())));
  const TensorView<const T> scores = model.forward(batch);
  Index right = 0, y = FiniteGroup::identity;
  for (Index t = 0; t < length; ++t) {
    y = words.group.product(words.elements[static_cast<std::size_t>(symbols(t, 0))], y);
    const TensorView<const T> of_step = scores[t][0];
    right += std::max_element(of_step.begin(), of_step.end()) - of_step.begin() == y;
  }
  return right;
}

template <class T = float>
Index right_steps(const GroupWords& words, Index layers, Index length) {
  const ExactNetwork network(words, layers);
  SequenceModel<T> model({}, network.model_options(true), Undrawn{});
  network.write(model);
  return right_steps(model, words, length);
}

/// The elements of a symmetric group that move the points so.
GroupWords words_of(const std::string& name, const std::vector<std::vector<std::int32_t>>& permutations) {
  GroupWords words{FiniteGroup(name), {}};
  for (const auto& permutation : permutations) {
    Index element = 0;
    while (words.group.permutation(element) != permutation) ++element;
    words.elements.push_back(element);
  }
  return words;
}

/// A swap, a cycle of all points, and a permutation of two cycles: few symbols, for which a test is fast.
GroupWords some_words_of_s5() { return words_of("S5", {{1, 0, 2, 3, 4}, {1, 2, 3, 4, 0}, {1, 0, 3, 4, 2}}); }

constexpr Index long_word = 100'000;

}  // namespace

TEST_CASE("one exact layer is right for 100,000 steps in fp32", "[nn][exact][long]") {
  const std::string name = GENERATE("S3", "Z2", "Z5", "D6", "Z2xS3");
  CAPTURE(name);
  CHECK(right_steps(all_words(name), 1, long_word) == long_word);
}

TEST_CASE("one exact layer with n - 1 factors follows words of S5", "[nn][exact][long]") {
  const GroupWords words = some_words_of_s5();
  CHECK(ExactNetwork(words, 1).cell().householder == 4);
  CHECK(right_steps(words, 1, long_word) == long_word);
}

TEST_CASE("two factors are enough for rotations of a cube and of an icosahedron", "[nn][exact][long]") {
  const std::string name = GENERATE("S4", "A5");
  CAPTURE(name);
  GroupWords words = all_words(name);
  CHECK(ExactNetwork(words, 1).cell().householder == 2);
  words.elements = {1, 2, words.group.order() / 2, words.group.order() - 1};
  CHECK(right_steps(words, 1, long_word) == long_word);
}

TEST_CASE("exact layers are right with all symbols of S4, S5 and A5", "[nn][exact][slow]") {
  const std::string name = GENERATE("S4", "S5", "A5");
  const Index layers = GENERATE(1, 3);
  CAPTURE(name, layers);
  CHECK(right_steps(all_words(name), layers, long_word) == long_word);
}

TEST_CASE("three exact layers follow words of S4 and S5 with half the factors", "[nn][exact][long]") {
  const bool s5 = GENERATE(false, true);
  const GroupWords words = s5 ? some_words_of_s5() : words_of("S4", {{1, 0, 2, 3}, {1, 2, 3, 0}});
  CHECK(ExactNetwork(words, 3).cell().householder == 2);
  CHECK(right_steps(words, 3, 20'000) == 20'000);
}

TEST_CASE("three exact layers are right for all groups, and for an odd number of steps", "[nn][exact]") {
  const std::string name = GENERATE("S2", "S3", "A4", "Z2", "Z5", "D4", "Z2xS3");
  CAPTURE(name);
  const GroupWords words = all_words(name);
  CHECK(right_steps(words, 3, 999) == 999);
  CHECK(right_steps<double>(words, 3, 99) == 99);
  // Where the identity is no product of two symbols, the block before the first is one all the same.
  if (name == "Z5") CHECK(right_steps({words.group, {1}}, 3, 99) == 99);
}

TEST_CASE("swaps alone need one factor", "[nn][exact]") {
  GroupWords words = all_words("S6");
  words.elements = words.group.swaps();
  CHECK(ExactNetwork(words, 1).cell().householder == 1);
  CHECK(right_steps(words, 1, 2000) == 2000);
}

TEST_CASE("larger sizes than the exact ones change no answer", "[nn][exact]") {
  const Index layers = GENERATE(1, 3);
  const GroupWords words = all_words("S3");
  const ExactNetwork network(words, layers);
  DeltaProductCell cell = network.cell();
  cell.hidden_size += 3;
  cell.heads += 2;
  cell.key_size += 1;
  cell.value_size += 2;
  cell.householder += 2;
  GatedMlp mlp = network.mlp().value_or(GatedMlp{});
  mlp.mlp_size += 5;
  ModelOptions options = network.model_options(true);
  options.cells = delta_product_blocks(cell, mlp, layers);
  options.input = TokenEmbedding{.tokens = 6, .size = cell.hidden_size};
  SequenceModel<float> model({}, options);
  network.write(model);
  CHECK(right_steps(model, words, 5000) == 5000);
}

TEST_CASE("exact parameters are refused for other models", "[nn][exact]") {
  const ExactNetwork network(all_words("S3"), 1);
  const auto message = [&](const auto& change) {
    DeltaProductCell cell = network.cell();
    change(cell);
    ModelOptions options = network.model_options(true);
    options.cells = delta_product_blocks(cell, {}, 1);
    options.input = TokenEmbedding{.tokens = 6, .size = cell.hidden_size};
    SequenceModel<float> model({}, options);
    return error_message<ValueError>([&] { network.write(model); });
  };
  CHECK_THAT(message([](auto& cell) { cell.householder = 1; }), contains("words of S3"));
  CHECK_THAT(message([](auto& cell) { cell.hidden_size -= 1; }), contains("words of S3"));
  CHECK_THAT(message([](auto& cell) { cell.beta_limit = 1; }), contains("words of S3"));
  CHECK_THAT(message([](auto& cell) { cell.state_decay = true; }), contains("words of S3"));
  CHECK_THAT(message([](auto& cell) { cell.readout_norm = ReadoutNorm::rms; }), contains("words of S3"));
  SequenceModel<float> of_others({}, model_for({.symbols = 6, .classes = 6, .every_step = true}, {Gru{}}));
  CHECK_THROWS_AS(network.write(of_others), ValueError);
  SequenceModel<float> of_three({}, ExactNetwork(all_words("S3"), 3).model_options(true));
  CHECK_THROWS_AS(network.write(of_three), ValueError);

  CHECK_THAT(error_message<ValueError>([] { ExactNetwork(all_words("S3"), 2); }),
             contains("expected 1 or 3"));
  CHECK_THAT(error_message<ValueError>([] { ExactNetwork(all_words("Z51"), 1); }), contains("at most 50"));
  CHECK_THAT(error_message<ValueError>([] { ExactNetwork(all_words("Z17"), 3); }), contains("at most 16"));
  CHECK_THAT(error_message<ValueError>([] {
               ExactNetwork({FiniteGroup("Z3"), {3}}, 1);
             }),
             contains("element 3"));
}

TEST_CASE("parity and cycle are words of Z2 and Z5, whose answer comes once", "[nn][exact][long]") {
  const Language language = GENERATE(Language::parity, Language::cycle);
  const LanguageTask task({.language = language, .length = 10, .test_length = 25});
  const ExactNetwork network(task.group_words().value(), GENERATE(1, 3));
  SequenceModel<float> model({}, network.model_options(false), Undrawn{});
  network.write(model);
  // Sequences of different lengths: padding must not move the state.
  const Evaluation result = evaluate(model, task, HeldOut::test);
  CHECK(result.metric("accuracy").value() == 1);
  // The scores of other classes are less by 40.
  CHECK(result.loss < 1e-6);
  CHECK_FALSE(LanguageTask({.language = Language::even_pairs}).group_words());
}

TEST_CASE("errors of one step are so small that 100,000 of them change no answer", "[nn][exact]") {
  // Factors do not lengthen a difference, so after T steps the state is wrong by T times the error of the
  // worst step, which is looked for among all elements and symbols. An answer is right as long as that is
  // less than half of the distance to the nearest other state.
  const std::string name = GENERATE("S3", "S4", "S5", "A5", "Z5", "Z50", "D50");
  CAPTURE(name);
  GroupWords words = all_words(name);
  const Index order = words.group.order();
  const Tensor<double> matrices = orthogonal_representation(words.group, words.elements);
  if (name == "S5") words = some_words_of_s5();
  const ExactNetwork network(words, 1);
  SequenceModel<float> model({}, network.model_options(true), Undrawn{});
  network.write(model);
  const Index d = matrices.shape()[1];
  double nearest = static_cast<double>(2 * d);
  for (Index element = 1; element < order; ++element) {
    double squares = 0;
    for (Index i = 0; i < d; ++i) {
      for (Index j = 0; j < d; ++j) squares += std::pow(matrices(element, i, j) - (i == j), 2);
    }
    nearest = std::min(nearest, std::sqrt(squares));
  }
  constexpr double size = 16;  // of what a state is a sixteenth of
  SequenceModel<float>::Generator generator(model, order);
  Tensor<float>& states = *std::ranges::find_if(generator.state(), [](const auto& s) { return !s.empty(); });
  double worst = 0;
  for (std::size_t symbol = 0; symbol < words.elements.size(); ++symbol) {
    Tensor<std::int32_t> symbols(Shape{order});
    std::fill(symbols.begin(), symbols.end(), static_cast<std::int32_t>(symbol));
    for (Index before = 0; before < order; ++before) {
      for (Index head = 0; head < d; ++head) {
        for (Index i = 0; i < d; ++i) {
          for (Index j = 0; j < d; ++j)
            states(before, head, i, j) = static_cast<float>((matrices(before, i, j) - (i == j)) / size);
        }
      }
    }
    generator.step(symbols);
    for (Index before = 0; before < order; ++before) {
      const Index after = words.group.product(words.elements[symbol], before);
      for (Index head = 0; head < d; ++head) {
        double squares = 0;
        for (Index i = 0; i < d; ++i) {
          for (Index j = 0; j < d; ++j)
            squares += std::pow(size * states(before, head, i, j) - (matrices(after, i, j) - (i == j)), 2);
        }
        worst = std::max(worst, std::sqrt(squares));
      }
    }
  }
  CHECK(static_cast<double>(long_word) * worst < nearest / 2);
  CHECK(worst > 0);
}

TEST_CASE("one layer with two factors counts modulo d", "[nn][exact]") {
  const GroupWords steps{FiniteGroup("Z12"), {1}};
  CHECK(ExactNetwork(steps, 1).cell().householder == 2);
  CHECK(right_steps(steps, 1, long_word) == long_word);
}

TEST_CASE("two layers with one factor count modulo 2 m", "[nn][exact]") {
  // The first layer knows whether a step is odd. The second reflects a plane on one line at odd steps and on
  // another at even steps, so two steps turn it by 2 pi / m.
  enum Feature : Index { one, even, odd, x, y };
  constexpr Index m = 6, classes = 2 * m;
  const DeltaProductCell cell{.hidden_size = 5,
                              .heads = 2,
                              .key_size = 2,
                              .value_size = 1,
                              .householder = 1,
                              .readout_norm = ReadoutNorm::none};
  ModelOptions options = model_for({.symbols = 1, .classes = classes, .every_step = true},
                                   delta_product_blocks(cell, std::nullopt, 2));
  options.input = TokenEmbedding{.tokens = 1, .size = 5};
  ExactWeights<float> weights(options, cell, false);
  for (const Feature feature : {one, even, x}) weights.embed(0, feature);
  const double large = weights.large, c = 1.0 / 16, angle = std::numbers::pi / m;
  {
    ExactWeights<float>::Delta parity(weights, 0, 3);
    parity.switch_off(1, 1, one);
    parity.key(0, 0, 0, one, large);
    parity.value(0, 0, 0, one, large);
    parity.beta(0, 0, one, weights.beta_two);
    parity.query(0, 0, one, large);
    parity.read(0, 0, odd, 1 / (2 * large));
    parity.read(0, 0, even, -1 / (2 * large));
  }
  // Lines at right angles to these keys. The point (1, 0) is reflected.
  const double keys[2][2] = {{std::cos(angle), std::sin(angle)}, {1, 0}};
  ExactWeights<float>::Delta plane(weights, 1, 3);
  for (Index head = 0; head < 2; ++head) {
    plane.beta(0, head, one, weights.beta_two);
    plane.query(head, head, one, large);
    for (const Feature at : {even, odd}) {
      for (Index i = 0; i < 2; ++i) plane.key(0, head, i, at, inverse_silu(c * keys[at - even][i]));
      plane.value(0, head, 0, at, inverse_silu(-c * keys[at - even][0]));
    }
    plane.read(head, 0, x + head, 1 / c);
  }
  double point[2] = {1, 0};
  for (Index step = 0; step < classes; ++step) {
    weights.classify(step, x, point[0], 3);
    weights.classify(step, y, point[1], 3);
    weights.classify(step, step % 2 == 0 ? even : odd, 1, 3);
    const double* k = keys[(step + 1) % 2];  // of the next step
    const double along = 2 * (point[0] * k[0] + point[1] * k[1]);
    for (int i = 0; i < 2; ++i) point[i] -= along * k[i];
  }
  SequenceModel<float> model({}, options, Undrawn{});
  copy<float>(weights.parameters().values(), model.parameters().values());
  Batch batch;
  batch.integers(batch_names::symbols) = Tensor<std::int32_t>(Shape{long_word, 1});
  const TensorView<const float> scores = model.forward(batch);
  Index right = 0;
  for (Index t = 0; t < long_word; ++t) {
    const TensorView<const float> of_step = scores[t][0];
    right += std::max_element(of_step.begin(), of_step.end()) - of_step.begin() == (t + 1) % classes;
  }
  CHECK(right == long_word);
}
