#include "orthornn/nn/delta_observation.hpp"

#include <cmath>
#include <numbers>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// One head with keys and values of two numbers, on symbols. All parameters are 0 at first.
struct KnownModel {
  explicit KnownModel(const DeltaProductCell& cell, bool nested = false)
      : model(Device::cpu(),
              {.input = TokenEmbedding{3, 3},
               .cells = {nested ? LayerOptions(Residual{{RmsNorm{}, cell}}) : LayerOptions(cell)},
               .readout = EveryStep{2}},
              Undrawn{}),
        heads(cell) {
    // Symbols are unit vectors.
    const TensorView<double> vectors = value("embedding/vectors");
    for (Index i = 0; i < 3; ++i) vectors(i, i) = 1;
  }

  TensorView<double> value(const std::string& name) {
    const auto& list = model.parameters().list();
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].name == name) return model.parameters().value(static_cast<Index>(i));
    }
    throw ValueError("there is no parameter " + name);
  }

  std::vector<DeltaObservation> observe(std::initializer_list<std::int32_t> symbols,
                                        std::initializer_list<Index> rank_steps, std::int32_t live = -1) {
    Batch batch;
    Tensor<std::int32_t>& given = batch.integers(batch_names::symbols);
    given.resize({static_cast<Index>(symbols.size()), 1});
    std::copy(symbols.begin(), symbols.end(), given.begin());
    if (live >= 0) {
      batch.integers(batch_names::lengths).resize({1});
      batch.integers(batch_names::lengths)(0) = live;
    }
    return observe_delta_products<double>(model, batch, {rank_steps.begin(), rank_steps.end()});
  }

  SequenceModel<double> model;
  DeltaHeads heads;
};

constexpr DeltaProductCell two_factors{
    .hidden_size = 3, .heads = 1, .key_size = 2, .value_size = 2, .householder = 2};
/// 2 sigma of it is 2 in double.
constexpr double surely = 40;

}  // namespace

TEST_CASE("step sizes are observed in the order of steps and factors", "[nn][delta]") {
  KnownModel known(two_factors);
  const TensorView<double> weights = known.value("cell/input_weights");
  const double sizes[3][2] = {{0.5, 1.5}, {1, 1.9}, {0.1, 1.2}};
  for (Index symbol = 0; symbol < 3; ++symbol) {
    for (Index j = 0; j < 2; ++j) {
      const double share = sizes[symbol][j] / 2;
      weights(known.heads.first_beta() + j, symbol) = std::log(share / (1 - share));
    }
  }
  const auto found = known.observe({2, 0, 1}, {});
  REQUIRE(found.size() == 1);
  CHECK(found[0].layer == "cell");
  CHECK(found[0].factors == 2);
  CHECK(found[0].key_size == 2);
  REQUIRE(found[0].heads.size() == 1);
  const std::vector<double> expected = {0.1, 1.2, 0.5, 1.5, 1, 1.9};
  const DeltaHeadObservation& head = found[0].heads[0];
  REQUIRE(head.betas.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::abs(head.betas[i] - expected[i]) < tolerance::rounding<double>(3));
  // Keys are zeros.
  CHECK(head.angles.empty());
  CHECK(head.real_steps == 3);
  CHECK(head.ranks.empty());
}

TEST_CASE("angles and effective ranks of a layer are those of its keys, values and step sizes",
          "[nn][delta]") {
  const bool nested = GENERATE(false, true);
  KnownModel known(two_factors, nested);
  const std::string cell = nested ? "cell/1" : "cell";
  const TensorView<double> bias = known.value(cell + "/input_bias");
  // Keys (1, 0) and (1, 1) / sqrt(2), which are reflections together: a rotation by 90 degrees.
  bias(known.heads.first_key()) = 1;
  bias(known.heads.first_key() + 2) = bias(known.heads.first_key() + 3) = 1;
  for (Index j = 0; j < 2; ++j) bias(known.heads.first_beta() + j) = surely;
  // The second factor has no value, so the first state is that of one key and one value.
  bias(known.heads.first_value()) = 1;
  const auto found = known.observe({0, 1, 2, 0}, {0, 1, 9}, 3);
  REQUIRE(found.size() == 1);
  CHECK(found[0].layer == cell);
  CHECK(found[0].has_angles);
  const DeltaHeadObservation& head = found[0].heads[0];
  CHECK(head.betas == std::vector<double>(6, 2.0));
  CHECK(head.real_steps == 0);
  REQUIRE(head.angles.size() == 3);
  for (const double angle : head.angles)
    CHECK(std::abs(angle - std::numbers::pi / 2) < 10 * tolerance::rounding<double>(2));
  // Step 9 is beyond the end.
  REQUIRE(head.ranks.size() == 2);
  CHECK(std::abs(head.ranks[0] - 1) < 100 * tolerance::rounding<double>(4));
}

TEST_CASE("a learned state is what factors turn, and its rank is kept by reflections", "[nn][delta]") {
  DeltaProductCell cell = two_factors;
  cell.learn_initial_state = cell.without_values = true;
  KnownModel known(cell);
  const TensorView<double> bias = known.value("cell/input_bias");
  bias(known.heads.first_key()) = bias(known.heads.first_key() + 2) = bias(known.heads.first_key() + 3) = 1;
  for (Index j = 0; j < 2; ++j) bias(known.heads.first_beta() + j) = surely;
  const TensorView<double> state = known.value("cell/initial_state");
  state(0, 0, 0) = state(0, 1, 1) = 3;  // two equal singular values
  const std::vector<double> ranks = known.observe({0, 1, 2}, {0, 2}).at(0).heads.at(0).ranks;
  REQUIRE(ranks.size() == 2);
  for (const double rank : ranks) CHECK(std::abs(rank - 2) < 100 * tolerance::rounding<double>(12));
}

TEST_CASE("the effective rank counts what a state holds after each step", "[nn][delta]") {
  // A key and a value for each of two symbols, all orthogonal; the third has no key.
  DeltaProductCell cell = two_factors;
  cell.householder = 1;
  KnownModel known(cell);
  const TensorView<double> weights = known.value("cell/input_weights");
  for (Index symbol = 0; symbol < 2; ++symbol) {
    weights(known.heads.first_key() + symbol, symbol) = 1;
    weights(known.heads.first_value() + symbol, symbol) = 1;
  }
  const auto found = known.observe({2, 0, 0, 1}, {0, 1, 2, 3});
  const std::vector<double>& ranks = found.at(0).heads.at(0).ranks;
  REQUIRE(ranks.size() == 4);
  CHECK_FALSE(found[0].has_angles);
  const double bound = 100 * tolerance::rounding<double>(4);
  CHECK(ranks[0] == 0);
  CHECK(std::abs(ranks[1] - 1) < bound);
  CHECK(std::abs(ranks[2] - 1) < bound);
  CHECK(std::abs(ranks[3] - 2) < bound);
  const std::vector<double> some = known.observe({2, 0, 0, 1}, {1, 3})[0].heads[0].ranks;
  CHECK(some == std::vector<double>{ranks[1], ranks[3]});
}

TEST_CASE("what cannot be observed is refused", "[nn][delta]") {
  KnownModel known(two_factors);
  Batch batch;
  batch.integers(batch_names::symbols).resize({2, 2});
  CHECK_THAT(error_message<ShapeError>([&] { observe_delta_products<double>(known.model, batch, {}); }),
             contains("2 sequences") && contains("expected one"));
  known.value("cell/input_bias")(known.heads.first_beta()) = NAN;
  CHECK_THAT(error_message<ValueError>([&] { known.observe({0}, {}); }),
             contains("cell: a step size is not finite"));
  // A model without such layers has nothing to observe.
  SequenceModel<double> other(Device::cpu(),
                              {.input = OneHot{3}, .cells = {Gru{2}}, .readout = EveryStep{2}});
  CHECK(observe_delta_products<double>(other, batch, {}).empty());
}
