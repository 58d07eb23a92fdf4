#include "orthornn/core/random.hpp"
#include "orthornn/linalg/orthogonality.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/rollouts/applied_matrix.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("a step on a GPU multiplies the state by the applied matrix", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  struct Case {
    Precision precision;
    RolloutWay way;
    ReflectionForm form;
    Index n;
  };
  const Case cases[] = {{Precision::fp32, RolloutWay::resident, ReflectionForm::dense, 65},
                        {Precision::fp32, RolloutWay::cluster, ReflectionForm::dense, 65},
                        {Precision::tf32, RolloutWay::cluster, ReflectionForm::dense, 100},
                        {Precision::bf16, RolloutWay::cluster, ReflectionForm::dense, 100},
                        {Precision::tf32, RolloutWay::stepwise, ReflectionForm::dense, 100},
                        {Precision::fp32, RolloutWay::stepwise, ReflectionForm::factored, 40}};
  for (const Case& c : cases) {
    CAPTURE(name_of(c.precision), name_of(c.way), c.n);
    const auto transition = make_transition<float>(Cwy{.init = Init::haar, .form = c.form}, c.n,
                                                   Execution(*device, c.precision, c.way));
    Tensor<float> parameters(transition->parameter_shape());
    transition->initialize(5, parameters);
    transition->prepare(parameters.copy(*device));
    AppliedMatrix<float> applied;
    Tensor<float> a(Shape{c.n, c.n});
    copy<float>(applied.of(*transition), a);

    // Multiples of 1/8 below 4: five bits, exact in every precision, so that only sums round.
    Tensor<float> states(Shape{2, 3, c.n});
    RandomStream random(1, RandomPurpose::training);
    for (float& x : states.view()[0]) x = (static_cast<float>(random.integer(64)) - 32) / 8;
    Tensor<float> there = states.copy(*device), last(Shape{3, c.n}, *device);
    RolloutCache<float> cache;
    const TensorView<float> step = there.view().slice(1, 1);
    rollout_forward<float>(*transition, Activation::identity, {}, {},
                           {.h_0 = there.view()[0], .inputs = step, .outputs = step, .h_last = last}, cache);
    const Tensor<float> found = there.copy(Device::cpu());
    for (Index b = 0; b < 3; ++b) {
      double difference = 0, size = 0;
      for (Index i = 0; i < c.n; ++i) {
        double expected = 0;
        for (Index j = 0; j < c.n; ++j) expected += static_cast<double>(a(i, j)) * states(0, b, j);
        difference = std::max(difference, std::abs(expected - found(1, b, i)));
        size = std::max(size, std::abs(expected));
      }
      CHECK(difference <= tolerance::rounding<float>(c.n) * 4 * size);
    }
  }
}

TEST_CASE("a model's orthogonality error on a GPU is that of its precision", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  const ModelOptions options{
      OneHot{3}, {OrthogonalCell{.hidden_size = 100, .transition = Cwy{.init = Init::haar}}}, EveryStep{2}};
  const auto error = [&](Precision precision, RolloutWay way) {
    SequenceModel<float> model(Execution(*device, precision, way), options, 3);
    AppliedMatrix<float> applied;
    const double found = model.orthogonality_error().value();
    const auto& cell = dynamic_cast<const OrthogonalLayer<float>&>(model.cell(0));
    CHECK(found == orthogonality_error<float>(applied.of(cell.transition())));
    return found;
  };
  CHECK(error(Precision::fp32, RolloutWay::cluster) < 2e-6);
  // Eleven bits of each entry of Q, rounded or cut off.
  const double tf32 = error(Precision::tf32, RolloutWay::stepwise);
  CHECK(tf32 > 2e-5);
  CHECK(tf32 < 2e-3);
}
