// Every gradient of a recurrent layer against central differences in double. The seeds are such that no
// argument of relu, abs or modrelu lies within a step of its kink.

#include <initializer_list>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/recurrence.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"

namespace orthornn::testing {
namespace {

double loss(Recurrence<double>& r) {
  r.forward();
  return inner_product(r.dh, r.outputs()) + inner_product(r.dh_last, r.last_state());
}

template <class Found>
void check_gradient(const std::string& name, const Found& found, Recurrence<double>& r,
                    TensorView<double> x) {
  INFO("gradient of " << name);
  const Tensor<double> expected = finite_differences(x, [&] { return loss(r); });
  // What nothing depends on (a dead unit's bias) has no relative error.
  if (frobenius_norm(expected) < 1e-6) {
    CHECK(frobenius_norm(found) < 1e-6);
  } else {
    CHECK(relative_error(found, expected) <= tolerance::finite_difference);
  }
}

void check_all_gradients(Recurrence<double>& r) {
  r.forward();
  r.backward();
  for (Index i = 0; i < static_cast<Index>(r.parameters.list().size()); ++i) {
    check_gradient(r.parameters.list()[static_cast<std::size_t>(i)].name, r.parameters.gradient(i), r,
                   r.parameters.value(i));
  }
  if (!r.x.empty()) check_gradient("the input", r.dx, r, r.x);
  // Copied, for a forward may not touch it but need not promise so.
  const Tensor<double> d_h0 = cast<double>(r.d_initial_state());
  check_gradient("h0", d_h0, r, r.h0);
}

TEST_CASE("gradients of every activation and transition agree with central differences",
          "[cells][gradient][long]") {
  const bool with_lengths = GENERATE(false, true);
  const Index n = 5, length = 4, batch = 5;
  for (const Activation activation : all_activations) {
    for (const NamedTransition& named : all_transitions(n, 3)) {
      CAPTURE(named.name, name_of(activation), with_lengths);
      Recurrence<double> r({.hidden_size = n, .transition = named.options, .activation = activation}, 2,
                           length, batch);
      if (with_lengths) r.set_lengths({4, 0, 2, 1, 3});
      check_all_gradients(r);
    }
  }
}

TEST_CASE("gradients through a Stiefel input matrix agree with central differences", "[cells][gradient]") {
  const Index k = GENERATE(1, 2, 5);
  const bool symbols = GENERATE(false, true);
  const InputMatrix matrix = GENERATE(InputMatrix::stiefel, InputMatrix::own, InputMatrix::matrix);
  CAPTURE(k, symbols, name_of(matrix));
  Recurrence<double> r({.hidden_size = 5,
                        .transition = Cwy{.reflections = 3},
                        .activation = Activation::tanh,
                        .input_matrix = matrix},
                       k, 4, 3, 2);
  if (symbols) r.use_symbols(3);
  check_all_gradients(r);
}

TEST_CASE("gradients from symbols agree with central differences", "[cells][gradient]") {
  for (const Activation activation : all_activations) {
    CAPTURE(name_of(activation));
    Recurrence<double> r({.hidden_size = 6, .transition = Cwy{.reflections = 2}, .activation = activation}, 4,
                         5, 3, 4);
    r.use_symbols(5);
    r.set_lengths({5, 3, 0});
    check_all_gradients(r);
  }
}

TEST_CASE("gradients at the smallest sizes agree with central differences", "[cells][gradient]") {
  for (const RecurrenceSizes s :
       {RecurrenceSizes{1, 1, 1, 1, 1}, RecurrenceSizes{1, 1, 3, 4, 2}, RecurrenceSizes{4, 1, 1, 1, 1},
        RecurrenceSizes{4, 4, 2, 1, 3}, RecurrenceSizes{3, 2, 1, 5, 1}, RecurrenceSizes{9, 4, 3, 3, 17}}) {
    for (const NamedTransition& named : all_transitions(s.n, s.l)) {
      CAPTURE(named.name, s.n, s.l, s.k, s.length, s.batch);
      Recurrence<double> r({.hidden_size = s.n, .transition = named.options, .activation = Activation::tanh},
                           s.k, s.length, s.batch, 6);
      check_all_gradients(r);
    }
  }
}

TEST_CASE("without a gradient of the last state, and without h0, the rest is as with zeros",
          "[cells][gradient]") {
  Recurrence<double> r({.hidden_size = 5, .transition = Cwy{}, .activation = Activation::tanh}, 2, 4, 3);
  r.h0.resize(r.h0.shape());
  r.dh_last.resize(r.dh_last.shape());
  r.forward();
  r.backward();
  const Tensor<double> gradients = r.parameters.gradients().copy(), dx = r.dx.copy();
  r.forward(r.input(), {});
  copy<double>(r.dh, r.d_outputs());
  r.backward(r.input(), {}, r.dx);
  CHECK(equal(r.parameters.gradients(), gradients));
  CHECK(equal(r.dx, dx));
  // And the input's gradient need not be asked for.
  r.forward(r.input(), {});
  copy<double>(r.dh, r.d_outputs());
  r.backward(r.input(), {}, {});
  CHECK(equal(r.parameters.gradients(), gradients));
}

TEST_CASE("nothing beyond the length of a sequence has a gradient or makes one", "[cells][gradient]") {
  for (const NamedTransition& named : all_transitions(6, 4)) {
    CAPTURE(named.name);
    Recurrence<double> r({.hidden_size = 6, .transition = named.options, .activation = Activation::modrelu},
                         3, 5, 4);
    r.set_lengths({3, 0, 5, 1});
    r.forward();
    r.backward();
    const Tensor<double> gradients = r.parameters.gradients().copy(), dx = r.dx.copy();
    for (Index t = 0; t < 5; ++t) {
      for (Index b = 0; b < 4; ++b) {
        if (t < r.lengths(b)) continue;
        for (const double d : r.dx.view()[t][b]) CHECK(d == 0);
        for (double& d : r.dh.view()[t][b]) d = 1e6;
        for (double& value : r.x.view()[t][b]) value = 1e6;
      }
    }
    r.forward();
    r.backward();
    CHECK(equal(r.parameters.gradients(), gradients));
    CHECK(equal(r.dx, dx));
    // h_last of a sequence without a step is h0.
    CHECK(equal(r.d_initial_state()[1], r.dh_last.view()[1]));
  }
}

}  // namespace
}  // namespace orthornn::testing
