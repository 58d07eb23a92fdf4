#include <cmath>
#include <initializer_list>

#include "nn/attention_case.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// The formulas, one number after the other.
void attend_by_formula(const AttentionCase<double>& c, Tensor<double>& weights, Tensor<double>& contexts) {
  const Index size = c.keys.shape()[2];
  for (Index t = 0; t < c.queries.shape()[0]; ++t) {
    for (Index b = 0; b < c.lengths.size(); ++b) {
      const Index live = c.lengths(b);
      std::vector<double> e(static_cast<std::size_t>(live));
      double total = 0;
      for (Index s = 0; s < live; ++s) {
        double score = 0;
        for (Index n = 0; n < size; ++n) score += c.queries(t, b, n) * c.keys(s, b, n);
        e[static_cast<std::size_t>(s)] = std::exp(c.scale * score);
        total += e[static_cast<std::size_t>(s)];
      }
      for (Index s = 0; s < live; ++s) {
        weights(t, b, s) = e[static_cast<std::size_t>(s)] / total;
        for (Index n = 0; n < size; ++n) contexts(t, b, n) += weights(t, b, s) * c.keys(s, b, n);
      }
    }
  }
}

}  // namespace

TEST_CASE("attention is that of its formula", "[nn][attention]") {
  // A sequence without a key, with one, with some, and with all.
  AttentionCase<double> c(3, 5, 4, {0, 1, 3, 5}, 0.7);
  Tensor<double> weights(c.weights.shape()), contexts(c.contexts.shape());
  attend_by_formula(c, weights, contexts);
  spoil_padding(c);
  c.forward();
  CHECK(relative_error(c.weights, weights) <= tolerance::rounding<double>(4));
  CHECK(relative_error(c.contexts, contexts) <= tolerance::rounding<double>(9));
  for (Index t = 0; t < 3; ++t) {
    for (Index n = 0; n < 4; ++n) CHECK(c.contexts(t, 0, n) == 0);
    for (Index b = 0; b < 4; ++b) {
      for (Index s = c.lengths(b); s < 5; ++s) CHECK(c.weights(t, b, s) == 0);
    }
  }
}

TEST_CASE("attention without lengths reads all keys", "[nn][attention]") {
  AttentionCase<float> c(3, 5, 4, {5, 5});
  c.forward();
  const Tensor<float> contexts = c.contexts.copy();
  c.lengths = Tensor<std::int32_t>();
  c.forward();
  CHECK(equal(c.contexts, contexts));
}

TEST_CASE("scores far apart overflow no exponential of attention", "[nn][attention]") {
  AttentionCase<float> c(2, 3, 4, {3}, 1e6F);
  c.forward();
  for (Index t = 0; t < 2; ++t) CHECK(c.weights(t, 0, 0) + c.weights(t, 0, 1) + c.weights(t, 0, 2) == 1);
}

TEST_CASE("gradients of attention are those of finite differences", "[nn][attention][gradient]") {
  const double scale = GENERATE(1.0, 0.3);
  AttentionCase<double> c(3, 5, 4, {0, 1, 3, 5}, scale);
  c.forward();
  c.backward();
  CHECK(c.scratch.size() == 0);
  const auto loss = [&] {
    c.forward();
    return inner_product(c.d_contexts, c.contexts);
  };
  CHECK(relative_error(c.d_queries, finite_differences(c.queries, loss)) <= tolerance::finite_difference);
  CHECK(relative_error(c.d_keys, finite_differences(c.keys, loss)) <= tolerance::finite_difference);
  // Padding is not read, and has no gradient.
  const Tensor<double> d_queries = c.d_queries.copy(), d_keys = c.d_keys.copy();
  spoil_padding(c);
  c.forward();
  c.backward();
  CHECK(equal(c.d_queries, d_queries));
  CHECK(equal(c.d_keys, d_keys));
}

TEST_CASE("attention does not depend on the number of threads", "[nn][attention]") {
  // Products of some size, so that threads share them too.
  AttentionCase<float> one(40, 37, 64, {37, 20, 0}), three(40, 37, 64, {37, 20, 0});
  for (AttentionCase<float>* c : {&one, &three}) {
    const Threads threads(c == &one ? 1 : 3);
    c->forward();
    c->backward();
  }
  CHECK(same_bits(one.contexts, three.contexts));
  CHECK(same_bits(one.d_queries, three.d_queries));
  CHECK(same_bits(one.d_keys, three.d_keys));
}

TEST_CASE("attention refuses what does not fit", "[nn][attention]") {
  AttentionCase<float> c(3, 5, 4, {5, 5});
  const auto refused = [&](const char* words) { CHECK_THROWS_WITH(c.forward(), contains(words)); };
  c.lengths(1) = 6;
  refused("length 6");
  c.lengths(1) = -1;
  refused("length -1");
  c.lengths(1) = 5;
  c.weights.resize({3, 2, 4});
  refused("[3, 2, 5]");
  c.weights.resize({3, 2, 5});
  c.contexts.resize({3, 2, 5});
  refused("[3, 2, 4]");
  c.keys.resize({5, 2, 3});
  CHECK_THROWS_AS(c.forward(), ShapeError);
}
