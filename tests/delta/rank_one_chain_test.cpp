#include "orthornn/delta/rank_one_chain.hpp"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "delta/chain_case.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// The definition, one number after the other.
void by_definition(const ChainCase<double>& c, Tensor<double>& outputs, Tensor<double>& states) {
  states = c.initial_states.copy();
  outputs.resize(c.outputs.shape());
  const Shape shape = states.shape();
  for (Index b = 0; b < c.layout.size(); ++b) {
    for (Index t = 0; t < c.layout[b].count; ++t) {
      const Index row = c.layout[b].row(t);
      for (Index h = 0; h < shape[1]; ++h) {
        for (Index m = 0; m < shape[3]; ++m) {
          for (Index i = 0; i < shape[2]; ++i)
            outputs(row, h, m) += c.right_scale(row, h) * c.right(row, h, i) * states(b, h, i, m);
          for (Index i = 0; i < shape[2]; ++i)
            states(b, h, i, m) += c.left_scale(row, h) * c.left(row, h, i) * outputs(row, h, m);
        }
      }
    }
  }
}

const std::vector<Index> chain_offsets{0, 11, 11, 12, 30};

}  // namespace

TEST_CASE("a chain of rank-one factors is that of its definition", "[delta]") {
  const Index chunk = GENERATE(1, 4, 18, 64);
  const bool scaled = GENERATE(false, true);
  ChainCase<double> c(TokenLayout::packed(chain_offsets), 2, 5, 3, {.chunk = chunk}, scaled);
  Tensor<double> outputs, states;
  by_definition(c, outputs, states);
  c.evaluate();
  CHECK(c.saved->size() == 0);
  // A factor has a norm of about 2, so errors may double a few times.
  CHECK(relative_error(c.outputs, outputs) <= 10 * tolerance::rounding<double>(18));
  CHECK(relative_error(c.final_states, states) <= 10 * tolerance::rounding<double>(18));
}

TEST_CASE("gradients of a chain of rank-one factors are those of finite differences", "[delta][gradient]") {
  const Threads one(1);
  const Index chunk = GENERATE(1, 4, 64);
  const bool scaled = GENERATE(false, true);
  ChainCase<double> c(TokenLayout::packed(std::vector<Index>{0, 5, 5, 12}), 2, 3, 2, {.chunk = chunk},
                      scaled);
  c.run();
  CHECK(c.saved->size() == 0);
  const auto loss = [&] {
    c.evaluate();
    return inner_product(c.d_outputs, c.outputs) + inner_product(c.d_final_states, c.final_states);
  };
  for (auto [gradient, x] : {std::pair{&c.d_left, &c.left},
                             {&c.d_right, &c.right},
                             {&c.d_left_scales, &c.left_scales},
                             {&c.d_right_scales, &c.right_scales},
                             {&c.d_initial_states, &c.initial_states}})
    CHECK(relative_error(*gradient, finite_differences(*x, loss)) <= tolerance::finite_difference);
}

TEST_CASE("the inverse of a chain of reflections is exact, and that of others is near", "[delta]") {
  const bool reflections = GENERATE(true, false);
  ChainCase<double> c(TokenLayout::packed(chain_offsets), 2, 6, 6, {.chunk = 8});
  if (reflections) {
    for (Index row = 0; row < 30; ++row) {
      for (Index h = 0; h < 2; ++h) {
        double squares = 0;
        for (Index i = 0; i < 6; ++i) squares += c.left(row, h, i) * c.left(row, h, i);
        for (Index i = 0; i < 6; ++i) c.right(row, h, i) = c.left(row, h, i);
        c.left_scales(row, h) = -2 / squares;
        c.right_scales(row, h) = 1;
      }
    }
  }
  Tensor<double> inverses(c.initial_states.shape());
  rank_one_chain_inverse<double>(c.input(), c.layout, c.options, inverses, *c.saved);
  // The states that the chain makes of the inverses of its product are unit matrices.
  Tensor<double> unit(inverses.shape());
  for (Index b = 0; b < 4; ++b) {
    for (Index h = 0; h < 2; ++h) {
      for (Index i = 0; i < 6; ++i) unit(b, h, i, i) = 1;
    }
  }
  // A factor near 1 + q^T k = 0 has a large inverse: the product of 18 has a condition of up to 1e8.
  c.initial_states = std::move(inverses);
  c.evaluate();
  CHECK(relative_error(c.final_states, unit) <= (reflections ? tolerance::rounding<double>(30) : 1e-6));

  // A projection, whose 1 + q^T k is a rounding error.
  double squares = 0;
  for (Index i = 0; i < 6; ++i) squares += c.right(11, 1, i) * c.right(11, 1, i);
  for (Index i = 0; i < 6; ++i) c.left(11, 1, i) = c.right(11, 1, i);
  c.left_scales(11, 1) = -1 / squares;
  c.right_scales(11, 1) = 1;
  CHECK_THROWS_WITH(rank_one_chain_inverse<double>(c.input(), c.layout, c.options, unit, *c.saved),
                    contains("factor 0 of sequence 2, head 1"));
}

TEST_CASE("a chain of rank-one factors is as exact in float, and may write over its initial states",
          "[delta]") {
  ChainCase<double> exact(TokenLayout::packed(chain_offsets), 2, 6, 4, {.chunk = 8});
  ChainCase<float> c(TokenLayout::packed(chain_offsets), 2, 6, 4, {.chunk = 8});
  exact.run();
  c.run();
  // Factors of a norm of about 2 may enlarge an error some hundred times in a chain of 18.
  const double bound = 100 * tolerance::epsilon<float>;
  CHECK(relative_error(c.outputs, exact.outputs) <= bound);
  CHECK(relative_error(c.d_left, exact.d_left) <= bound);
  CHECK(relative_error(c.d_right, exact.d_right) <= bound);
  rank_one_chain<float>(c.input(), c.layout, c.options, c.outputs, c.initial_states, *c.saved);
  CHECK(same_bits(c.initial_states, c.final_states));
}

TEST_CASE("a chain of rank-one factors reads no padding", "[delta]") {
  Tensor<std::int32_t> lengths(Shape{2});
  lengths(0) = 3;
  lengths(1) = 5;
  ChainCase<double> c(TokenLayout::time_major(5, 2, lengths), 1, 3, 2, {.chunk = 2});
  c.run();
  const Tensor<double> outputs = c.outputs.copy(), d_left = c.d_left.copy();
  for (const Index row : {6, 8}) {
    for (Tensor<double>* input : {&c.left, &c.right, &c.left_scales, &c.right_scales, &c.d_outputs}) {
      const TensorView<double> whole = input->view().slice(row, 1);
      std::fill(whole.begin(), whole.end(), std::nan(""));
    }
    CHECK(frobenius_norm(outputs.view().slice(row, 1)) == 0);
    CHECK(frobenius_norm(d_left.view().slice(row, 1)) == 0);
  }
  c.run();
  CHECK(equal(c.outputs, outputs));
  CHECK(equal(c.d_left, d_left));
}

TEST_CASE("a chain of rank-one factors has the same bits for every number of threads", "[delta]") {
  const auto run = [](int threads) {
    const Threads set(threads);
    ChainCase<float> c(TokenLayout::sequence_major(1, 40), 1, 16, 100, {.chunk = 16});
    c.run();
    return c;
  };
  const ChainCase<float> one = run(1), three = run(3);
  CHECK(same_bits(one.outputs, three.outputs));
  CHECK(same_bits(one.final_states, three.final_states));
  CHECK(same_bits(one.d_left, three.d_left));
  CHECK(same_bits(one.d_right_scales, three.d_right_scales));
  CHECK(same_bits(one.d_initial_states, three.d_initial_states));
}

TEST_CASE("rank_one_chain refuses what does not fit", "[delta]") {
  ChainCase<double> c(TokenLayout::packed(chain_offsets), 2, 5, 3, {});
  const auto refused = [&](const char* words) { CHECK_THROWS_WITH(c.evaluate(), contains(words)); };
  c.options.chunk = 0;
  refused("0 factors");
  c.options.chunk = 4;
  c.outputs.resize({30, 2, 4});
  refused("[30, 2, 3]");
  c.outputs.resize({30, 2, 3});
  c.right.resize({30, 2, 4});
  refused("right vectors");
  c.right.resize({30, 2, 5});
  c.initial_states.resize({3, 2, 5, 3});
  refused("initial states");
  c.initial_states.resize({2, 5, 3});
  refused("[B, H, D, M]");
}
