#include "orthornn/delta/position_scores.hpp"

#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "delta/scores_case.hpp"
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

/// The definition: every key goes through every factor after it.
Tensor<double> by_definition(const ScoresCase<double>& c) {
  Tensor<double> scores(c.scores.shape());
  const Index size = c.keys.shape()[2];
  for (Index b = 0; b < c.layout.size(); ++b) {
    for (Index h = 0; h < c.keys.shape()[1]; ++h) {
      for (Index s = 0; s < c.layout[b].count; ++s) {
        std::vector<double> key(static_cast<std::size_t>(size));
        const auto entry = [&](Index i) -> double& { return key[static_cast<std::size_t>(i)]; };
        for (Index i = 0; i < size; ++i) entry(i) = c.keys(c.layout[b].row(s), h, i);
        for (Index t = s; t < c.layout[b].count; ++t) {
          const Index row = c.layout[b].row(t);
          double along = 0, score = 0;
          for (Index i = 0; i < size; ++i) along += c.vectors(row, h, i) * entry(i);
          for (Index i = 0; i < size && t > s; ++i)
            entry(i) -= c.betas(row, h) * along * c.vectors(row, h, i);
          for (Index i = 0; i < size; ++i) score += c.queries(row, h, i) * entry(i);
          scores(b, h, t, s) = c.options.scale * score;
        }
      }
    }
  }
  return scores;
}

}  // namespace

TEST_CASE("scores with Householder positions are those of the product of factors", "[delta]") {
  const Index chunk = GENERATE(1, 5, 16, 100);
  const std::vector<Index> offsets{0, 23, 23, 24};
  ScoresCase<double> c(TokenLayout::packed(offsets), 2, 6, 25, {.scale = 0.4, .chunk = chunk});
  c.scores.begin()[7] = std::nan("");
  c.evaluate();
  CHECK(c.saved->size() == 0);
  CHECK(relative_error(c.scores, by_definition(c)) <= tolerance::rounding<double>(24));
}

TEST_CASE("gradients of scores with Householder positions are those of finite differences",
          "[delta][gradient]") {
  const Threads one(1);
  const Index chunk = GENERATE(1, 3, 100);
  Tensor<std::int32_t> lengths(Shape{2});
  lengths(0) = 7;
  lengths(1) = 4;
  ScoresCase<double> c(TokenLayout::time_major(8, 2, lengths), 2, 3, 8, {.scale = 0.4, .chunk = chunk});
  c.run();
  CHECK(c.saved->size() == 0);
  const auto loss = [&] {
    c.evaluate();
    return inner_product(c.d_scores, c.scores);
  };
  for (auto [gradient, x] : {std::pair{&c.d_queries, &c.queries},
                             {&c.d_keys, &c.keys},
                             {&c.d_vectors, &c.vectors},
                             {&c.d_betas, &c.betas}})
    CHECK(relative_error(*gradient, finite_differences(*x, loss)) <= tolerance::finite_difference);
}

TEST_CASE("scores with Householder positions are as exact in float", "[delta]") {
  ScoresCase<double> exact(TokenLayout::sequence_major(2, 40), 1, 8, 40, {.chunk = 16});
  ScoresCase<float> c(TokenLayout::sequence_major(2, 40), 1, 8, 40, {.chunk = 16});
  exact.run();
  c.run();
  // Factors of a norm of at most 1 enlarge no error, so those of 40 add up.
  const double bound = tolerance::reference_float(40, 8, 1);
  CHECK(relative_error(c.scores, exact.scores) <= bound);
  CHECK(relative_error(c.d_queries, exact.d_queries) <= bound);
  CHECK(relative_error(c.d_keys, exact.d_keys) <= bound);
  CHECK(relative_error(c.d_vectors, exact.d_vectors) <= bound);
  CHECK(relative_error(c.d_betas, exact.d_betas) <= bound);
  // With and without what a backward reads.
  const Tensor<float> scores = c.scores.copy();
  c.evaluate();
  CHECK(same_bits(c.scores, scores));
}

TEST_CASE("scores with Householder positions read no padding and no gradient of later keys", "[delta]") {
  Tensor<std::int32_t> lengths(Shape{2});
  lengths(0) = 3;
  lengths(1) = 5;
  ScoresCase<double> c(TokenLayout::time_major(5, 2, lengths), 1, 3, 5, {.chunk = 2});
  c.run();
  const Tensor<double> d_keys = c.d_keys.copy(), d_vectors = c.d_vectors.copy();
  const double nan = std::nan("");
  for (const Index row : {6, 8}) {
    for (Tensor<double>* input : {&c.queries, &c.keys, &c.vectors, &c.betas}) {
      const TensorView<double> whole = input->view().slice(row, 1);
      std::fill(whole.begin(), whole.end(), nan);
    }
  }
  for (Index b = 0; b < 2; ++b) {
    for (Index t = 0; t < 5; ++t) {
      for (Index s = 0; s < 5; ++s) {
        if (s > t || t >= lengths(b)) c.d_scores(b, 0, t, s) = nan;
      }
    }
  }
  c.run();
  CHECK(equal(c.d_keys, d_keys));
  CHECK(equal(c.d_vectors, d_vectors));
  CHECK(frobenius_norm(c.d_keys.view().slice(6, 1)) == 0);
  CHECK(frobenius_norm(c.scores) < 1e3);
}

TEST_CASE("scores with Householder positions have the same bits for every number of threads", "[delta]") {
  const auto run = [](int threads) {
    const Threads set(threads);
    ScoresCase<float> c(TokenLayout::sequence_major(3, 50), 2, 16, 50, {.chunk = 16});
    c.run();
    return c;
  };
  const ScoresCase<float> one = run(1), three = run(3);
  CHECK(same_bits(one.scores, three.scores));
  CHECK(same_bits(one.d_queries, three.d_queries));
  CHECK(same_bits(one.d_vectors, three.d_vectors));
  CHECK(same_bits(one.d_keys, three.d_keys));
  CHECK(same_bits(one.d_betas, three.d_betas));
}

TEST_CASE("position_scores refuses what does not fit", "[delta]") {
  ScoresCase<double> c(TokenLayout::sequence_major(2, 6), 2, 3, 6, {});
  const auto refused = [&](const char* words) { CHECK_THROWS_WITH(c.evaluate(), contains(words)); };
  c.options.chunk = 0;
  refused("0 tokens");
  c.options.chunk = 4;
  c.options.scale = std::nan("");
  refused("scale");
  c.options.scale = 1;
  c.scores.resize({2, 2, 5, 5});
  refused("expected [2, 2, 6, 6]");
  c.scores.resize({2, 2, 7, 6});
  refused("expected [2, 2, 7, 7]");
  c.betas.resize({12, 1});
  refused("betas");
}
