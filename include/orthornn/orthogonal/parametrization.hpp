#pragma once
// What the options of all parametrizations share. Each is a struct of plain values in a header of its own. It
// has a `name` in files and on the command line, a `title` in tables and plots, `fields` (core/fields.hpp),
// and two functions that its source defines:
//
//   Parameter parameter(Index hidden_size) const;  // throws ValueError for sizes outside their range
//   template <class T>
//   TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
//
// Its line in `TransitionOptions` makes it known everywhere else. A program registers its own
// (orthogonal/own_transition.hpp).

#include <memory>
#include <utility>

#include "orthornn/core/error.hpp"
#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/core/parameters.hpp"
#include "orthornn/products/product.hpp"

namespace orthornn {

/// What makes Q [N, N], or its factors, from free parameters, and takes their gradient back. Parameters have
/// the shape that the options' `parameter` says, and lie on the execution's device; `draw` and
/// `find_parameters` get host memory. It keeps the factors in memory that stays in place.
template <class T>
class Parametrization {
 public:
  virtual ~Parametrization() = default;

  /// Draws parameters, the same for a seed on every machine.
  virtual void draw(std::uint64_t seed, TensorView<T> parameters) const = 0;
  /// Writes parameters with which Q is the given orthogonal matrix [N, N]. Throws ValueError, saying why,
  /// where none reach it; by default it always throws.
  virtual void find_parameters(ConstTensorView<T> /*q*/, TensorView<T> /*parameters*/) const {
    throw ValueError("this parametrization finds no parameters for a given matrix");
  }
  /// Makes the factors. Throws ValueError for parameters that give no Q, such as a zero reflection vector.
  virtual void prepare(ConstTensorView<T> parameters) = 0;
  /// Makes what `backward` alone reads of the parameters; by default all that `prepare` makes.
  virtual void prepare_backward(ConstTensorView<T> parameters) { prepare(parameters); }
  /// Overwrites `d_parameters` by the gradient of the parameters as they were prepared last, from the
  /// gradient of the factors that the product uses. A dense product gives that of Q, `gradient.q` [N, N].
  virtual void backward(const Factors<T>& gradient, TensorView<T> d_parameters) = 0;
  /// Whether a CUDA graph can hold `prepare` and `backward`.
  virtual bool recordable() const { return true; }
};

/// What a Transition joins.
template <class T>
struct TransitionParts {
  /// What makes Q or its factors.
  std::unique_ptr<Parametrization<T>> parametrization;
  /// What applies them. It is made from views of the factors that the parametrization keeps.
  std::unique_ptr<Product<T>> product;
};

/// The parts of a parametrization that makes Q itself, and returns it, [N, N] in C order, by its function
/// q(). Its `backward` gets the gradient as `Factors::q`.
template <class T, class MatrixParametrization>
TransitionParts<T> dense_parts(std::unique_ptr<MatrixParametrization> parametrization) {
  auto product = dense_product<T>(parametrization->q());
  return {std::move(parametrization), std::move(product)};
}

/// How the parameters of a transition are drawn before training (docs/math.md, section 4.1).
enum class Init {
  /// Rotations of pairs of coordinates by angles uniform in [-pi, pi) (Henaff, Szlam and LeCun, ICML 2016).
  henaff,
  /// Rotations of pairs of coordinates by angles uniform in [0, pi / 2), which are slow (Helfrich, Willmott
  /// and Ye, ICML 2018).
  cayley,
  /// A matrix uniform over the orthogonal matrices whose determinant the parametrization has. With L < N
  /// reflections the first L columns are uniform over St(N, L) (Stewart 1980).
  haar,
  /// Standard normal reflection vectors; for Cayley and the exponential, a normal X with variance 1 / N; for
  /// the free matrix, as `haar`.
  normal,
};
template <>
struct Names<Init> {
  using enum Init;
  static constexpr Choice<Init> list[] = {
      {"henaff", henaff}, {"cayley", cayley}, {"haar", haar}, {"normal", normal}};
};

/// Visits the field "init", which all parametrizations have.
template <class Options>
void init_field(auto&& visit) {
  visit("init", &Options::init, domain::any, "Initial transition: henaff, cayley, haar or normal");
}
/// Visits the field "reflections", which products of reflections have.
template <class Options>
void reflections_field(auto&& visit) {
  visit("reflections", &Options::reflections, domain::not_negative, "reflections L, 1 to N; 0 for N");
}

}  // namespace orthornn
