// A rollout against the recurrence written as a loop, and what must hold bit for bit however it is cut.

#include <cmath>
#include <initializer_list>

#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/oracle.hpp"
#include "support/recurrence.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"

namespace orthornn::testing {
namespace {

struct Expected {
  Tensor<double> outputs, last;
};

/// h_t = sigma(Q h_{t-1} + W x_t + b), one number at a time, from the layer's own Q.
template <class T>
Expected expected_rollout(const Recurrence<T>& r, Activation activation) {
  const Index n = r.layer.options().hidden_size;
  const Tensor<T> q = r.layer.transition().materialize();
  const auto value = [&](const std::string& name) {
    return r.parameters.value(r.parameters.find("cell/" + name));
  };
  const auto w = value("input_weights"), b = value("bias");
  Expected e{Tensor<double>({r.length, r.batch, n}), cast<double>(r.h0)};
  for (Index j = 0; j < r.batch; ++j) {
    const Index live = r.lengths.empty() ? r.length : r.lengths(j);
    for (Index t = 0; t < live; ++t) {
      const Tensor<double> h = cast<double>(e.last.view()[j]);
      for (Index i = 0; i < n; ++i) {
        double a = b(i);
        for (Index k = 0; k < n; ++k) a += double(q(i, k)) * h(k);
        for (Index k = 0; k < r.layer.input_size(); ++k) {
          a += double(w(i, k)) * (r.x.empty() ? (r.symbols(t, j) == k ? 1.0 : 0.0) : double(r.x(t, j, k)));
        }
        const double m = activation == Activation::modrelu ? double(value("modrelu_bias")(i)) : 0;
        e.last(j, i) = e.outputs(t, j, i) = sigma(activation, a, m);
      }
    }
  }
  return e;
}

auto sizes_of_all_kinds() {
  return GENERATE(RecurrenceSizes{1, 1, 1, 1, 1}, RecurrenceSizes{1, 1, 2, 5, 3},
                  RecurrenceSizes{7, 1, 1, 1, 4}, RecurrenceSizes{7, 7, 3, 6, 1},
                  RecurrenceSizes{48, 20, 5, 4, 17}, RecurrenceSizes{61, 61, 2, 3, 33});
}

TEMPLATE_TEST_CASE("a rollout is the recurrence of the formula", "[cells]", float, double) {
  const RecurrenceSizes s = sizes_of_all_kinds();
  const bool symbols = GENERATE(false, true);
  for (const Activation activation : all_activations) {
    for (const NamedTransition& named : all_transitions(s.n, s.l)) {
      CAPTURE(named.name, name_of(activation), s.n, s.l, s.k, s.length, s.batch, symbols);
      Recurrence<TestType> r({.hidden_size = s.n, .transition = named.options, .activation = activation}, s.k,
                             s.length, s.batch);
      if (symbols) r.use_symbols(7);
      r.forward();
      const Expected e = expected_rollout(r, activation);
      // A float argument near 0 may take modrelu's jump the other way; no seed here has one.
      const double bound = static_cast<double>(s.length) * tolerance::rounding<TestType>(s.n);
      CHECK(relative_error(r.outputs(), e.outputs) <= bound);
      CHECK(relative_error(r.last_state(), e.last) <= bound);
    }
  }
}

TEMPLATE_TEST_CASE("sequences of several lengths", "[cells]", float, double) {
  for (const Activation activation : all_activations) {
    for (const NamedTransition& named : all_transitions(9, 4)) {
      CAPTURE(named.name, name_of(activation));
      Recurrence<TestType> r({.hidden_size = 9, .transition = named.options, .activation = activation}, 3, 6,
                             5);
      r.set_lengths({6, 0, 1, 5, 3});
      // What an earlier, longer use left behind must not show.
      r.layer.prepare();
      r.forward(r.input(), r.h0);
      r.forward();
      const Expected e = expected_rollout(r, activation);
      CHECK(relative_error(r.outputs(), e.outputs) <= 6 * tolerance::rounding<TestType>(9));
      CHECK(relative_error(r.last_state(), e.last) <= 6 * tolerance::rounding<TestType>(9));
      for (Index j = 0; j < 5; ++j) {
        for (Index t = r.lengths(j); t < 6; ++t) {
          for (const TestType value : r.outputs()[t][j]) REQUIRE(value == 0);
        }
        if (r.lengths(j) == 0) {
          CHECK(equal(r.last_state()[j], r.h0.view()[j]));
        } else {
          CHECK(equal(r.last_state()[j], r.outputs()[r.lengths(j) - 1][j]));
        }
      }
    }
  }
}

TEST_CASE("without an initial state the rollout starts at zero", "[cells]") {
  Recurrence<float> r({.hidden_size = 7, .transition = Cwy{}, .activation = Activation::tanh}, 2, 3, 2);
  r.forward();  // leaves states that are not zero
  r.forward(r.input(), {});
  const Tensor<float> found = cast<float>(r.outputs());
  r.h0.resize(r.h0.shape());
  r.forward();
  CHECK(equal(r.outputs(), found));
}

TEMPLATE_TEST_CASE("the linear cell without input keeps norms, and its backward runs it in reverse",
                   "[cells]", float, double) {
  const RecurrenceSizes s = GENERATE(RecurrenceSizes{1, 1, 1, 50, 1}, RecurrenceSizes{7, 4, 1, 200, 3},
                                     RecurrenceSizes{48, 48, 2, 100, 17});
  for (const NamedTransition& named : all_transitions(s.n, s.l)) {
    if (is_its_own_parameter(named.options)) continue;
    CAPTURE(named.name, s.n);
    Recurrence<TestType> r(
        {.hidden_size = s.n, .transition = named.options, .activation = Activation::identity}, s.k, s.length,
        s.batch);
    for (const char* name : {"cell/input_weights", "cell/bias"}) {
      for (TestType& value : r.parameters.value(r.parameters.find(name))) value = 0;
    }
    r.forward();
    const double bound = static_cast<double>(s.length) * tolerance::rounding<TestType>(s.n);
    for (Index j = 0; j < s.batch; ++j) {
      const double norm = frobenius_norm(r.h0.view()[j]);
      for (Index t = 0; t < s.length; ++t) {
        REQUIRE(std::abs(frobenius_norm(r.outputs()[t][j]) / norm - 1) <= bound);
      }
    }
    // A gradient equal to the last state comes back as the first: (Q^T)^T Q^T h0 = h0.
    r.dh.resize(r.dh.shape());
    copy<TestType>(r.last_state(), r.dh_last);
    r.backward();
    CHECK(relative_error(r.d_initial_state(), r.h0) <= bound);
  }
}

/// Everything that a forward and a backward give.
template <class T>
struct RecurrenceResults {
  Tensor<T> outputs, last, gradients, dx, d_h0;
  explicit RecurrenceResults(Recurrence<T>& r) {
    r.forward();
    outputs = cast<T>(r.outputs());
    last = cast<T>(r.last_state());
    r.backward();
    gradients = r.parameters.gradients().copy();
    dx = r.dx.copy();
    d_h0 = cast<T>(r.d_initial_state());
  }
};

template <class T>
void check_equal(const RecurrenceResults<T>& found, const RecurrenceResults<T>& expected) {
  CHECK(equal(found.outputs, expected.outputs));
  CHECK(equal(found.last, expected.last));
  CHECK(equal(found.gradients, expected.gradients));
  CHECK(equal(found.dx, expected.dx));
  CHECK(equal(found.d_h0, expected.d_h0));
}

TEMPLATE_TEST_CASE("one step at a time gives the same bits", "[cells]", float, double) {
  using T = TestType;
  const Index n = GENERATE(7, 48);
  const Index batch = GENERATE(1, 3, 4, 17, 128);
  const bool symbols = GENERATE(false, true);
  const Index length = 4, k = 3;
  for (const Activation activation : all_activations) {
    for (const NamedTransition& named : all_transitions(n, n - 2)) {
      CAPTURE(named.name, name_of(activation), n, batch, symbols);
      const OrthogonalCell cell{.hidden_size = n, .transition = named.options, .activation = activation};
      Recurrence<T> whole(cell, k, length, batch);
      if (symbols) whole.use_symbols(8);
      whole.forward();
      Recurrence<T> stepwise(cell, k, length, batch);
      stepwise.layer.prepare();
      Tensor<T> state = whole.h0.copy();
      bool same = true;
      for (Index t = 0; t < length; ++t) {
        SequenceInput<T> input;
        if (symbols) {
          input.symbols = std::as_const(whole.symbols).view().slice(t, 1);
        } else {
          input.vectors = std::as_const(whole.x).view().slice(t, 1);
        }
        stepwise.forward(input, state);
        same = same && equal(stepwise.outputs()[0], whole.outputs()[t]);
        copy<T>(stepwise.last_state(), state);
      }
      CHECK(same);
      CHECK(equal(state, whole.last_state()));
    }
  }
}

TEMPLATE_TEST_CASE("the number of threads changes no bit", "[cells]", float, double) {
  const RecurrenceSizes s = GENERATE(RecurrenceSizes{7, 3, 2, 5, 40}, RecurrenceSizes{48, 48, 3, 4, 17},
                                     RecurrenceSizes{31, 20, 2, 3, 50}, RecurrenceSizes{101, 40, 5, 4, 128});
  const int threads_before = thread_count();
  const bool symbols = GENERATE(false, true);
  for (const NamedTransition& named : all_transitions(s.n, s.l)) {
    CAPTURE(named.name, s.n, s.batch, symbols);
    Recurrence<TestType> r(
        {.hidden_size = s.n, .transition = named.options, .activation = Activation::modrelu}, s.k, s.length,
        s.batch);
    if (symbols) r.use_symbols(9);
    set_thread_count(1);
    const RecurrenceResults<TestType> alone(r);
    for (const int threads : {2, 3}) {
      CAPTURE(threads);
      set_thread_count(threads);
      check_equal(RecurrenceResults<TestType>(r), alone);
    }
  }
  set_thread_count(threads_before);
}

TEMPLATE_TEST_CASE("a layer that was used before, for more and for less, gives what a fresh one gives",
                   "[cells]", float, double) {
  using T = TestType;
  for (const NamedTransition& named : all_transitions(12, 5)) {
    CAPTURE(named.name);
    const OrthogonalCell cell{.hidden_size = 12, .transition = named.options, .activation = Activation::abs};
    Recurrence<T> fresh(cell, 3, 4, 5, 20), used(cell, 3, 4, 5, 20);
    const RecurrenceResults<T> expected(fresh);
    for (const auto& [length, batch] : {std::pair<Index, Index>{9, 21}, std::pair<Index, Index>{1, 1}}) {
      Recurrence<T> other(cell, 3, length, batch, 30);
      used.layer.prepare();
      used.forward(other.input(), other.h0);
      copy<T>(other.dh, used.d_outputs());
      used.backward(other.input(), other.dh_last, other.dx);
    }
    check_equal(RecurrenceResults<T>(used), expected);
  }
}

TEMPLATE_TEST_CASE("symbols are one-hot vectors", "[cells]", float, double) {
  using T = TestType;
  const InputMatrix matrix = GENERATE(InputMatrix::free, InputMatrix::stiefel);
  const Index k = 6, length = 5, batch = 18;
  const OrthogonalCell cell{.hidden_size = 11,
                            .transition = Cwy{.reflections = 4},
                            .activation = Activation::modrelu,
                            .input_matrix = matrix};
  Recurrence<T> symbols(cell, k, length, batch), vectors(cell, k, length, batch);
  symbols.use_symbols(10);
  for (Index t = 0; t < length; ++t) {
    for (Index j = 0; j < batch; ++j) {
      for (Index i = 0; i < k; ++i) vectors.x(t, j, i) = symbols.symbols(t, j) == i ? T(1) : T(0);
    }
  }
  const std::vector<std::int32_t> lengths = {5, 0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 2, 3, 4};
  symbols.set_lengths(lengths);
  vectors.set_lengths(lengths);
  const RecurrenceResults<T> found(symbols), expected(vectors);
  const double bound = static_cast<double>(length) * tolerance::rounding<T>(11);
  CHECK(relative_error(found.outputs, expected.outputs) <= bound);
  CHECK(relative_error(found.last, expected.last) <= bound);
  CHECK(relative_error(found.gradients, expected.gradients) <= bound);
  CHECK(relative_error(found.d_h0, expected.d_h0) <= bound);
}

TEST_CASE("modrelu of zero is zero, and a NaN stays one", "[cells]") {
  for (const Activation activation : all_activations) {
    CAPTURE(name_of(activation));
    Recurrence<float> r({.hidden_size = 3, .transition = Cwy{}, .activation = activation}, 2, 2, 2);
    r.x(0, 1, 0) = NAN;
    r.forward();
    for (const float h : r.outputs()[1][0]) CHECK(std::isfinite(h));
    for (const float h : r.outputs()[1][1]) CHECK(std::isnan(h));
  }
  Recurrence<double> r({.hidden_size = 3, .transition = Cwy{}, .activation = Activation::modrelu}, 2, 1, 1);
  for (double& value : r.parameters.value(r.parameters.find("cell/bias"))) value = 0;
  for (double& value : r.parameters.value(r.parameters.find("cell/modrelu_bias"))) value = 1;
  r.x.resize(r.x.shape());
  r.h0.resize(r.h0.shape());
  r.forward();
  for (const double h : r.outputs()) CHECK(h == 0);
}

TEST_CASE("a layer refuses what does not fit", "[cells][errors]") {
  const OrthogonalCell cell{.hidden_size = 5, .transition = Cwy{}, .activation = Activation::tanh};
  Recurrence<float> r(cell, 3, 4, 2);
  r.layer.prepare();
  const auto forward = [&] { r.forward(r.input(), r.h0); };
  r.h0.resize({2, 4});
  check_says<ShapeError>(forward, {"initial state", "[2, 4]", "[2, 5]"});
  r.h0.resize({2, 5});
  r.lengths.resize({3});
  check_says<ShapeError>(forward, {"lengths", "[3]", "[2]"});
  r.set_lengths({4, 5});
  check_says<ValueError>(forward, {"length 5", "4"});
  r.set_lengths({-1, 4});
  check_says<ValueError>(forward, {"length -1"});
  r.set_lengths({4, 4});
  r.x.resize({4, 2, 2});
  check_says<ShapeError>(forward, {"input", "[4, 2, 2]", "[4, 2, 3]"});
  r.use_symbols(11);
  r.symbols(3, 1) = 3;
  check_says<ValueError>(forward, {"symbol 3", "2"});
  r.symbols(3, 1) = -1;
  check_says<ValueError>(forward, {"symbol -1"});

  ParameterSet<float> parameters;
  CHECK_THROWS_AS(OrthogonalLayer<float>(parameters, "a", cell, 0), ValueError);
  OrthogonalCell stiefel = cell;
  stiefel.input_matrix = InputMatrix::stiefel;
  CHECK_THROWS_AS(OrthogonalLayer<float>(parameters, "b", stiefel, 6), ValueError);
  CHECK_THAT(error_message<ValueError>([] { parse<Activation>("gelu"); }), contains("gelu"));
  CHECK_THAT(error_message<ValueError>([] { parse<InputMatrix>("round"); }), contains("round"));
}

TEST_CASE("a layer draws its parameters from the seed", "[cells]") {
  const auto drawn = [](std::uint64_t seed) {
    Recurrence<double> r({.hidden_size = 64, .transition = Cwy{}, .activation = Activation::modrelu}, 50, 1,
                         1);
    for (double& value : r.parameters.value(r.parameters.find("cell/bias"))) value = 0;
    r.layer.initialize(seed);
    return r.parameters.values().copy();
  };
  CHECK(equal(drawn(1), drawn(1)));
  CHECK_FALSE(equal(drawn(1), drawn(2)));

  Recurrence<double> r({.hidden_size = 64, .transition = Cwy{}, .activation = Activation::modrelu}, 50, 1, 1);
  r.layer.initialize(3);
  // W has variance 2 / K; five standard deviations of the mean of squares of 3200 normal numbers.
  const auto w = r.parameters.value(r.parameters.find("cell/input_weights"));
  const double variance = std::pow(frobenius_norm(w), 2) / 3200;
  CHECK(std::abs(variance / (2.0 / 50) - 1) <= 5 * std::sqrt(2.0 / 3200));
  for (const double m : r.parameters.value(r.parameters.find("cell/modrelu_bias")))
    CHECK(std::abs(m) <= 0.01);
}

}  // namespace
}  // namespace orthornn::testing
