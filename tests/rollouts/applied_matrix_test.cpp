#include "orthornn/rollouts/applied_matrix.hpp"

#include <algorithm>
#include <initializer_list>

#include "orthornn/core/error.hpp"
#include "orthornn/nn/sequence_model.hpp"
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

TEST_CASE("a model that is not prepared has no orthogonality error", "[cells]") {
  for (const ReflectionForm form : {ReflectionForm::dense, ReflectionForm::factored}) {
    const ModelOptions options{
        OneHot{3},
        {OrthogonalCell{.hidden_size = 6, .transition = Cwy{.reflections = 2, .form = form}}},
        EveryStep{2}};
    SequenceModel<float> undrawn(Device::cpu(), options, Undrawn{});
    CHECK_THROWS_WITH(undrawn.orthogonality_error(), contains("before prepare"));

    SequenceModel<float> spoiled(Device::cpu(), options);
    CHECK(spoiled.orthogonality_error() < 1e-5);
    const TensorView<float> vectors = spoiled.parameters().value(0);
    std::fill(vectors[1].begin(), vectors[1].end(), 0.0F);
    CHECK_THROWS_AS(spoiled.prepare(), ValueError);
    CHECK_THROWS_WITH(spoiled.orthogonality_error(), contains("before prepare"));
  }
}
