#include "orthornn/cells/applied_matrix.hpp"

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEMPLATE_TEST_CASE("the applied matrix on the CPU is Q", "[cells]", float, double) {
  using T = TestType;
  AppliedMatrix<T> applied;
  // Smaller and larger again, so that memory is used a second time.
  for (const Index n : {7, 3, 20}) {
    for (const NamedTransition& named : all_transitions(n, 3)) {
      CAPTURE(named.name, n);
      const auto transition = make_transition<T>(named.options, n);
      Tensor<T> parameters(transition->parameter_shape());
      transition->initialize(5, parameters);
      transition->prepare(parameters);
      const Tensor<T> q = transition->materialize();
      const TensorView<const T> found = applied.of(*transition);
      REQUIRE(found.shape() == q.shape());
      CHECK(relative_error(found, cast<double>(q)) <= tolerance::rounding<T>(n));
    }
  }
}
