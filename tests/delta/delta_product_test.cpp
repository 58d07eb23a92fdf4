#include "orthornn/delta/delta_product.hpp"

#include <initializer_list>
#include <limits>

#include "delta/delta_case.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/lengths.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// The definition, one number after the other.
void by_definition(const DeltaCase<double>& c, Tensor<double>& outputs, Tensor<double>& states) {
  const Shape keys = c.keys.shape();
  const Index value = c.values.shape()[3];
  states = c.initial_states.copy();
  outputs.resize(c.outputs.shape());
  for (Index b = 0; b < c.layout.size(); ++b) {
    for (Index h = 0; h < keys[2]; ++h) {
      for (Index t = 0; t < c.layout[b].count; ++t) {
        const Index row = c.layout[b].row(t);
        for (Index i = 0; i < keys[3] && !c.log_decays.empty(); ++i) {
          const double a = c.log_decays.shape().rank() == 3 ? c.log_decays(row, h, i) : c.log_decays(row, h);
          for (Index v = 0; v < value; ++v) states(b, h, i, v) *= std::exp(a);
        }
        for (Index j = 0; j < keys[1]; ++j) {
          double squares = 0;
          for (Index i = 0; i < keys[3]; ++i) squares += c.keys(row, j, h, i) * c.keys(row, j, h, i);
          const double norm = c.options.unit_keys && squares > 0 ? std::sqrt(squares) : 1;
          const auto key = [&](Index i) { return c.keys(row, j, h, i) / norm; };
          const auto removal = [&](Index i) { return c.removals.empty() ? 1.0 : c.removals(row, j, h, i); };
          for (Index v = 0; v < value; ++v) {
            double error = c.values(row, j, h, v);
            for (Index i = 0; i < keys[3]; ++i) error -= states(b, h, i, v) * key(i) * removal(i);
            for (Index i = 0; i < keys[3]; ++i) states(b, h, i, v) += c.betas(row, j, h) * key(i) * error;
          }
        }
        for (Index v = 0; v < value; ++v) {
          double sum = 0;
          for (Index i = 0; i < keys[3]; ++i) sum += states(b, h, i, v) * c.queries(row, h, i);
          outputs(row, h, v) = c.options.scale * sum;
        }
      }
    }
  }
}

/// Runs the same in the recurrent form, whose gradients are those of finite differences, and compares all.
void check_like_recurrent(DeltaCase<double>& c, double bound) {
  std::vector<Tensor<double>> found;
  for (auto [name, result] : c.results()) found.push_back(result->copy());
  c.options.form = DeltaForm::recurrent;
  c.run();
  const auto expected = c.results();
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(expected[i].first);
    CHECK(relative_error(found[i], *expected[i].second) <= bound);
  }
}

}  // namespace

TEST_CASE("a delta product is that of its definition", "[delta]") {
  const auto [form, chunk] = GENERATE(table<DeltaForm, Index>({{DeltaForm::recurrent, 1},
                                                               {DeltaForm::chunked, 1},
                                                               {DeltaForm::chunked, 7},
                                                               {DeltaForm::chunked, 16},
                                                               {DeltaForm::chunked, 1000}}));
  const auto decay = GENERATE(Decay::none, Decay::of_heads);
  const Index factors = GENERATE(1, 2, 3);
  const bool unit_keys = GENERATE(false, true);
  const auto lengths = lengths_of({0, 1, 13, 9});
  DeltaCase<double> c(TokenLayout::time_major(13, 4, lengths), {.factors = factors},
                      {.form = form, .scale = 0.7, .unit_keys = unit_keys, .chunk = chunk}, decay);
  Tensor<double> outputs, states;
  by_definition(c, outputs, states);
  c.forward();
  c.saved->clear();
  CHECK(relative_error(c.outputs, outputs) <= tolerance::rounding<double>(13 * factors));
  CHECK(relative_error(c.final_states, states) <= tolerance::rounding<double>(13 * factors));
  // The same without what a backward reads, over the initial states.
  std::fill(c.outputs.begin(), c.outputs.end(), 1.0);
  const Tensor<double> start = c.initial_states.copy();
  delta_product<double>(c.input(), c.layout, c.options, c.outputs, c.initial_states, *c.saved);
  CHECK(c.saved->size() == 0);
  CHECK(relative_error(c.outputs, outputs) <= tolerance::rounding<double>(13 * factors));
  CHECK(same_bits(c.initial_states, c.final_states));
}

TEST_CASE("decays of rows and removals are those of the definition", "[delta]") {
  DeltaCase<double> c(TokenLayout::time_major(9, 2), {.factors = 2}, {.form = DeltaForm::recurrent},
                      Decay::of_rows, true);
  Tensor<double> outputs, states;
  by_definition(c, outputs, states);
  c.evaluate();
  // A factor with removals has a norm of up to 1 + 2 |k * r|, and 18 of them about 10 here.
  CHECK(relative_error(c.outputs, outputs) <= 10 * tolerance::rounding<double>(18));
  CHECK(relative_error(c.final_states, states) <= 10 * tolerance::rounding<double>(18));
}

TEST_CASE("gradients of a delta product are those of finite differences", "[delta][gradient]") {
  const Threads one(1);  // thousands of small evaluations
  const auto [form, chunk] = GENERATE(table<DeltaForm, Index>({{DeltaForm::recurrent, 1},
                                                               {DeltaForm::chunked, 1},
                                                               {DeltaForm::chunked, 5},
                                                               {DeltaForm::chunked, 64}}));
  const auto decay = GENERATE(Decay::none, Decay::of_heads);
  const Index factors = GENERATE(1, 3);
  const bool unit_keys = GENERATE(false, true);
  const auto lengths = lengths_of({3, 0, 5});
  DeltaCase<double> c(TokenLayout::sequence_major(3, 5, lengths),
                      {.factors = factors, .heads = 2, .key = 3, .value = 2},
                      {.form = form, .scale = 0.7, .unit_keys = unit_keys, .chunk = chunk}, decay);
  c.run();
  CHECK(c.saved->size() == 0);
  const auto loss = [&] {
    c.evaluate();
    return inner_product(c.d_outputs, c.outputs) + inner_product(c.d_final_states, c.final_states);
  };
  const auto agrees = [&](const Tensor<double>& gradient, Tensor<double>& x) {
    CHECK(relative_error(gradient, finite_differences(x, loss)) <= tolerance::finite_difference);
  };
  agrees(c.d_queries, c.queries);
  agrees(c.d_keys, c.keys);
  agrees(c.d_values, c.values);
  agrees(c.d_betas, c.betas);
  agrees(c.d_log_decays, c.log_decays);
  agrees(c.d_initial_states, c.initial_states);
}

TEST_CASE("gradients of decays of rows and of removals are those of finite differences",
          "[delta][gradient]") {
  const Threads one(1);
  const bool unit_keys = GENERATE(false, true);
  DeltaCase<double> c(TokenLayout::time_major(5, 2), {.factors = 2, .heads = 2, .key = 3, .value = 4},
                      {.form = DeltaForm::recurrent, .unit_keys = unit_keys}, Decay::of_rows, true);
  c.run();
  const auto loss = [&] {
    c.evaluate();
    return inner_product(c.d_outputs, c.outputs) + inner_product(c.d_final_states, c.final_states);
  };
  for (auto [gradient, x] :
       {std::pair{&c.d_removals, &c.removals}, {&c.d_log_decays, &c.log_decays}, {&c.d_keys, &c.keys}})
    CHECK(relative_error(*gradient, finite_differences(*x, loss)) <= tolerance::finite_difference);
}

TEST_CASE("the chunked delta product is the recurrent one, also in float", "[delta]") {
  const bool with_decay = GENERATE(false, true);
  const Index factors = GENERATE(1, 4);
  const auto run = [&](auto number, DeltaForm form) {
    using T = decltype(number);
    DeltaCase<T> c(TokenLayout::sequence_major(2, 150),
                   {.factors = factors, .heads = 2, .key = 32, .value = 48}, {.form = form},
                   with_decay ? Decay::of_heads : Decay::none);
    c.run();
    return c;
  };
  auto exact = run(double{}, DeltaForm::recurrent);
  auto chunked = run(double{}, DeltaForm::chunked);
  auto recurrent_float = run(float{}, DeltaForm::recurrent), chunked_float = run(float{}, DeltaForm::chunked);
  for (std::size_t i = 0; i < exact.results().size(); ++i) {
    const auto [name, expected] = exact.results()[i];
    INFO(name);
    // Factors of a norm of at most 1 enlarge no error, so those of all factors add up.
    const double bound = tolerance::reference_float(150 * factors, 48, 1);
    CHECK(relative_error(*chunked.results()[i].second, *expected) <= tolerance::reference_double);
    CHECK(relative_error(*recurrent_float.results()[i].second, *expected) <= bound);
    CHECK(relative_error(*chunked_float.results()[i].second, *expected) <= bound);
  }
}

TEST_CASE("layouts and threads change no bit of a delta product", "[delta]") {
  const auto form = GENERATE(DeltaForm::recurrent, DeltaForm::chunked);
  // Values are shared out at multiples of 24 or less: 25 and 130 leave one and some over.
  const DeltaCaseSizes sizes = GENERATE(DeltaCaseSizes{.factors = 2, .heads = 1, .key = 40, .value = 130},
                                        DeltaCaseSizes{.factors = 2, .heads = 1, .key = 160, .value = 25});
  const DeltaProductOptions options{.form = form, .chunk = 16};
  const auto run = [&](TokenLayout layout, int threads) {
    const Threads set(threads);
    DeltaCase<float> c(std::move(layout), sizes, options, Decay::of_heads);
    return c;
  };
  // One sequence of 30 tokens, alone.
  DeltaCase<float> one = run(TokenLayout::sequence_major(1, 30), 1);
  one.run();
  for (const int threads : {2, 3, 8}) {
    const Threads set(threads);
    DeltaCase<float> c = run(TokenLayout::time_major(30, 1), threads);
    c.run();
    for (std::size_t i = 0; i < c.results().size(); ++i) {
      INFO(c.results()[i].first << ", " << threads << " threads");
      CHECK(same_bits(*c.results()[i].second, *one.results()[i].second));
    }
  }
  // The same beside another, in each layout.
  const std::vector<Index> offsets{0, 12, 42, 42};
  const auto lengths = lengths_of({12, 30, 0});
  for (const TokenLayout& layout : {TokenLayout::packed(offsets), TokenLayout::time_major(30, 3, lengths),
                                    TokenLayout::sequence_major(3, 30, lengths)}) {
    const Threads set(2);
    DeltaCase<float> c = run(layout, 2);
    for (Index t = 0; t < 30; ++t) {
      const Index row = layout[1].row(t);
      const auto take = [&](Tensor<float>& to, const Tensor<float>& from) {
        copy<float>(from.view().slice(t, 1), to.view().slice(row, 1));
      };
      take(c.queries, one.queries);
      take(c.keys, one.keys);
      take(c.values, one.values);
      take(c.betas, one.betas);
      take(c.log_decays, one.log_decays);
      take(c.d_outputs, one.d_outputs);
    }
    copy<float>(one.initial_states, c.initial_states.view().slice(1, 1));
    copy<float>(one.d_final_states, c.d_final_states.view().slice(1, 1));
    c.run();
    for (std::size_t i = 0; i < c.results().size(); ++i) {
      const auto [name, found] = c.results()[i];
      INFO(name);
      if (found->empty()) continue;
      const Tensor<float>& expected = *one.results()[i].second;
      if (found->shape()[0] != layout.rows()) {
        Tensor<float> mine = Tensor<float>(expected.shape());
        copy<float>(found->view().slice(1, 1), mine);
        CHECK(same_bits(mine, expected));
      } else {
        Tensor<float> mine = Tensor<float>(expected.shape());
        for (Index t = 0; t < 30; ++t)
          copy<float>(found->view().slice(layout[1].row(t), 1), mine.view().slice(t, 1));
        CHECK(same_bits(mine, expected));
      }
    }
  }
}

TEST_CASE("padding of a delta product is not read, and becomes 0", "[delta]") {
  const auto form = GENERATE(DeltaForm::recurrent, DeltaForm::chunked);
  const auto lengths = lengths_of({2, 4});
  DeltaCase<double> c(TokenLayout::time_major(5, 2, lengths), {}, {.form = form}, Decay::of_heads);
  c.run();
  std::vector<Tensor<double>> expected;
  for (auto [name, result] : c.results()) expected.push_back(result->copy());
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Index row : {4, 6, 8, 9}) {
    for (Tensor<double>* input : {&c.queries, &c.keys, &c.values, &c.betas, &c.log_decays, &c.d_outputs}) {
      const TensorView<double> whole = input->view().slice(row, 1);
      std::fill(whole.begin(), whole.end(), nan);
    }
  }
  for (auto [name, result] : c.results()) std::fill(result->begin(), result->end(), nan);
  c.run();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto [name, result] = c.results()[i];
    INFO(name);
    CHECK(equal(*result, expected[i]));
    if (result->empty() || result->shape()[0] != 10) continue;
    for (const Index row : {4, 6, 8, 9}) CHECK(frobenius_norm(result->view().slice(row, 1)) == 0);
  }
}

TEST_CASE("a sequence cut in two with the state carried is one run, gradients too", "[delta]") {
  const auto form = GENERATE(DeltaForm::recurrent, DeltaForm::chunked);
  const DeltaCaseSizes sizes{.factors = 3, .heads = 2, .key = 6, .value = 5};
  DeltaCase<double> whole(TokenLayout::sequence_major(1, 21), sizes, {.form = form, .chunk = 12},
                          Decay::of_heads);
  whole.run();
  const auto part = [&](Index first, Index count) {
    DeltaCase<double> c(TokenLayout::sequence_major(1, count), sizes, whole.options, Decay::of_heads);
    const auto take = [&](Tensor<double>& to, const Tensor<double>& from) {
      copy<double>(from.view().slice(first, count), to);
    };
    take(c.queries, whole.queries);
    take(c.keys, whole.keys);
    take(c.values, whole.values);
    take(c.betas, whole.betas);
    take(c.log_decays, whole.log_decays);
    take(c.d_outputs, whole.d_outputs);
    return c;
  };
  DeltaCase<double> first = part(0, 8), second = part(8, 13);
  copy<double>(whole.initial_states, first.initial_states);
  first.forward();
  copy<double>(first.final_states, second.initial_states);
  second.forward();
  copy<double>(whole.d_final_states, second.d_final_states);
  second.backward();
  copy<double>(second.d_initial_states, first.d_final_states);
  first.backward();
  const double bound = tolerance::rounding<double>(63);
  CHECK(relative_error(second.final_states, whole.final_states) <= bound);
  CHECK(relative_error(first.d_initial_states, whole.d_initial_states) <= bound);
  for (std::size_t i = 0; i < whole.results().size(); ++i) {
    const auto [name, expected] = whole.results()[i];
    if (expected->empty() || expected->shape()[0] != 21) continue;
    INFO(name);
    CHECK(relative_error(first.results()[i].second->view(), expected->view().slice(0, 8)) <= bound);
    CHECK(relative_error(second.results()[i].second->view(), expected->view().slice(8, 13)) <= bound);
  }
}

TEST_CASE("gradients are right for step sizes and keys at the border of their domain", "[delta]") {
  // Keys from two directions, reflections, no update at all, and keys of zeros.
  const auto form = GENERATE(DeltaForm::recurrent, DeltaForm::chunked);
  const bool unit_keys = GENERATE(false, true);
  DeltaCase<double> c(TokenLayout::sequence_major(1, 40), {.factors = 2, .heads = 1, .key = 4, .value = 3},
                      {.form = form, .unit_keys = unit_keys});
  for (Index t = 0; t < 40; ++t) {
    for (Index j = 0; j < 2; ++j) {
      for (Index i = 0; i < 4; ++i) c.keys(t, j, 0, i) = t % 7 == 3 ? 0 : i == (t / 3) % 2;
      c.betas(t, j, 0) = t % 5 == 0 ? 0 : 2;
    }
  }
  Tensor<double> outputs, states;
  by_definition(c, outputs, states);
  c.run();
  CHECK(relative_error(c.outputs, outputs) <= tolerance::rounding<double>(80));
  CHECK(relative_error(c.final_states, states) <= tolerance::rounding<double>(80));
  check_like_recurrent(c, tolerance::rounding<double>(80));
}

TEST_CASE("a state that is cleared within a chunk gives no NaN", "[delta]") {
  const auto form = GENERATE(DeltaForm::recurrent, DeltaForm::chunked);
  const double a = GENERATE(-50.0, -1e4, -std::numeric_limits<double>::infinity());
  DeltaCase<double> c(TokenLayout::sequence_major(1, 20), {.factors = 2}, {.form = form}, Decay::of_heads);
  for (Index t = 0; t < 20; ++t) {
    for (Index h = 0; h < 2; ++h) c.log_decays(t, h) = t % 3 == 1 ? a : 0;
  }
  Tensor<double> outputs, states;
  by_definition(c, outputs, states);
  c.run();
  CHECK(relative_error(c.outputs, outputs) <= tolerance::rounding<double>(40));
  check_like_recurrent(c, tolerance::rounding<double>(40));
}

TEST_CASE("decays far apart are as exact as near ones in float", "[delta]") {
  // A difference of sums of decays would be wrong by the rounding of the sums, 1e-4 here.
  const auto run = [](auto number, DeltaForm form) {
    using T = decltype(number);
    DeltaCase<T> c(TokenLayout::sequence_major(1, 64), {.factors = 1}, {.form = form}, Decay::of_heads);
    for (Index t = 0; t < 64; t += 2) c.log_decays(t, 0) = -60;
    c.run();
    return c.outputs.copy();
  };
  // 64 decays and 64 sums of 32 terms, about: what float loses without cancellation.
  CHECK(relative_error(run(float{}, DeltaForm::chunked), run(double{}, DeltaForm::recurrent)) <=
        tolerance::epsilon<float> * 64);
}

TEST_CASE("states and their gradients may be left out", "[delta]") {
  const auto form = GENERATE(DeltaForm::recurrent, DeltaForm::chunked);
  const auto lengths = lengths_of({9, 0});
  DeltaCase<double> zeros(TokenLayout::time_major(9, 2, lengths), {}, {.form = form, .chunk = 6},
                          Decay::of_heads);
  std::fill(zeros.initial_states.begin(), zeros.initial_states.end(), 0.0);
  std::fill(zeros.d_final_states.begin(), zeros.d_final_states.end(), 0.0);
  zeros.run();
  DeltaCase<double> none(TokenLayout::time_major(9, 2, lengths), {}, {.form = form, .chunk = 6},
                         Decay::of_heads);
  DeltaProductInput<double> input = none.input();
  input.initial_states = {};
  DeltaProductGradients<double> gradients = none.gradients();
  gradients.d_final_states = {};
  gradients.d_initial_states = {};
  delta_product_forward<double>(input, none.layout, none.options, none.outputs, {}, *none.saved);
  delta_product_backward<double>(input, none.layout, none.options, gradients, *none.saved);
  CHECK(equal(none.outputs, zeros.outputs));
  CHECK(equal(none.d_keys, zeros.d_keys));
  CHECK(equal(none.d_log_decays, zeros.d_log_decays));
}

TEST_CASE("no tokens and no sequences are no error", "[delta]") {
  const auto form = GENERATE(DeltaForm::recurrent, DeltaForm::chunked);
  DeltaCase<double> no_tokens(TokenLayout::time_major(0, 3), {}, {.form = form});
  no_tokens.run();
  CHECK(equal(no_tokens.final_states, no_tokens.initial_states));
  CHECK(equal(no_tokens.d_initial_states, no_tokens.d_final_states));
  DeltaCase<double> no_sequences(TokenLayout::time_major(5, 0), {}, {.form = form});
  no_sequences.run();
  CHECK(no_sequences.saved->size() == 0);
}

TEST_CASE("a backward refuses what another forward has left", "[delta]") {
  const auto form = GENERATE(DeltaForm::recurrent, DeltaForm::chunked);
  DeltaCase<double> c(TokenLayout::time_major(40, 2), {}, {.form = form, .chunk = 16});
  DeltaCase<double> other(TokenLayout::time_major(40, 1), {}, {.form = form, .chunk = 8});
  c.forward();
  CHECK_THROWS_WITH(
      delta_product_backward<double>(other.input(), other.layout, other.options, other.gradients(), *c.saved),
      contains("the forward kept"));
}

TEST_CASE("a long chunk takes no more memory than the sequence needs", "[delta]") {
  DeltaCase<double> c(TokenLayout::time_major(3, 2), {},
                      {.form = DeltaForm::chunked, .chunk = std::numeric_limits<Index>::max()});
  c.run();
  CHECK(c.saved->bytes() < 1000000);
}

TEST_CASE("one token continues a sequence, as generation does", "[delta]") {
  DeltaCase<float> c(TokenLayout::time_major(6, 3), {.factors = 2}, {.form = DeltaForm::recurrent},
                     Decay::of_heads);
  c.evaluate();
  Tensor<float> state = c.initial_states.copy(), output(Shape{3, 2, 7});
  for (Index t = 0; t < 6; ++t) {
    const auto at = [&](const Tensor<float>& x) { return x.view().slice(3 * t, 3); };
    delta_product<float>({.queries = at(c.queries),
                          .keys = at(c.keys),
                          .values = at(c.values),
                          .betas = at(c.betas),
                          .log_decays = at(c.log_decays),
                          .initial_states = state},
                         TokenLayout::time_major(1, 3), c.options, output, state, *c.saved);
    CHECK(equal(output.view(), at(c.outputs)));
  }
  CHECK(same_bits(state, c.final_states));
}

TEST_CASE("delta_product refuses what does not fit", "[delta]") {
  DeltaCase<double> c(TokenLayout::time_major(3, 2), {});
  const auto refused = [&](const char* words) { CHECK_THROWS_WITH(c.forward(), contains(words)); };
  c.options.chunk = -1;
  refused("-1 factors");
  c.options.chunk = 64;
  c.options.segments = -1;
  refused("-1 segments");
  c.options.segments = 0;
  c.options.scale = std::numeric_limits<double>::infinity();
  refused("scale");
  c.options.scale = 1;
  c.removals.resize(c.keys.shape());
  refused("recurrent form");
  c.removals = Tensor<double>();
  c.log_decays.resize({6, 2, 5});
  refused("recurrent form");
  c.log_decays.resize({6, 3});
  refused("log decays has shape [6, 3], expected [6, 2]");
  c.log_decays = Tensor<double>();
  c.betas.resize({6, 1, 2});
  refused("betas");
  c.betas.resize({6, 2, 2});
  c.layout = TokenLayout::time_major(4, 2);
  refused("[8, 2, 2, 5]");
  CHECK_THROWS_AS(TokenLayout::sequence_major(4, Index{1} << 62), ShapeError);
  CHECK_THROWS_AS(TokenLayout::time_major(-1, 2), ShapeError);
  CHECK_THROWS_WITH(TokenLayout::packed(std::vector<Index>{0, 3, 2}), contains("fall from 3 to 2"));
  CHECK_THROWS_WITH(TokenLayout::packed(std::vector<Index>{1, 3}), contains("begin with 1"));
  CHECK_THROWS_WITH(TokenLayout::packed(std::vector<Index>{}), contains("no offsets"));
  const auto lengths = lengths_of({3, 4});
  CHECK_THROWS_WITH(TokenLayout::time_major(3, 2, lengths), contains("lengths[1] is 4, expected 0 to 3"));
}
