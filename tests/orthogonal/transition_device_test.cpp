// Every transition on a GPU against the same form on the CPU in double.

#include <functional>
#include <initializer_list>
#include <numbers>
#include <vector>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "cuda/core/graph.hpp"
#include "orthornn/linalg/orthogonality.hpp"
#include "orthornn/rollouts/rollout.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"

namespace orthornn::testing {
namespace {

constexpr double moderate_generators = std::numbers::sqrt2;  // |A|

template <class T>
Tensor<T> on_host(const Tensor<T>& x) {
  return x.copy(Device::cpu());
}

/// |found - expected| <= bound * max(|expected|, scale): a gradient may be zero, where `scale` is the size of
/// the terms that cancel.
template <class T>
void check_close(const Tensor<T>& found, const Tensor<double>& expected, double bound, double scale = 0) {
  const double size = frobenius_norm(expected);
  const double error = relative_error(on_host(found), expected) * std::max(size, 1e-300);
  CHECK(error <= bound * std::max(size, scale));
}

/// The vectors of a rollout and what the two products make of them, on one device.
template <class T>
struct Products {
  Tensor<T> h, g, a, d, z, y;

  Products(const Transition<T>& transition, Index count) {
    const Device device = transition.device();
    const Shape shape{count, transition.hidden_size()}, coefficients{count, transition.coefficient_count()};
    // Numbers that a float can hold.
    h = cast<T>(normal_tensor<float>(shape, 1)).copy(device);
    g = cast<T>(normal_tensor<float>(shape, 2)).copy(device);
    a = cast<T>(normal_tensor<float>(shape, 3)).copy(device);
    d = cast<T>(normal_tensor<float>(shape, 4)).copy(device);
    z = normal_tensor<T>(coefficients, 5).copy(device);
    y = normal_tensor<T>(coefficients, 6).copy(device);
    transition.multiply_add(columns_of(std::as_const(h)), columns_of(a), view(z));
    transition.multiply_add_transposed(columns_of(std::as_const(g)), columns_of(d), view(y));
  }
  static MatrixView<T> view(Tensor<T>& c) {
    return {c.data(), c.shape()[1], c.shape()[0], c.shape()[1], c.device()};
  }
  Tensor<T> gradient(Transition<T>& transition) {
    Tensor<T> result(transition.parameter_shape(), transition.device());
    transition.backward_of_rollout(columns_of(std::as_const(g)), columns_of(std::as_const(h)), view(z),
                                   view(y), result);
    return result;
  }
};

template <class T>
void check_transition(const NamedTransition& named, Index n, Device device, Index count) {
  const auto oracle = make_transition<double>(named.options, n);
  const auto found = make_transition<T>(named.options, n, device);
  CAPTURE(named.name, n, oracle->parameter_shape()[0], sizeof(T));
  CHECK(found->device() == device);
  CHECK(found->form() == oracle->form());
  const Tensor<float> parameters = cast<float>(some_parameters(*oracle, 7, moderate_generators));
  oracle->prepare(cast<double>(parameters));
  found->prepare(cast<T>(parameters).copy(device));
  // A free matrix enlarges, as elsewhere; and the norm of its gradient is that of d_q.
  const double bound = 4 * tolerance::rounding<T>(n);

  check_close(found->materialize(), oracle->materialize(), bound);
  Tensor<double> x = cast<double>(normal_tensor<float>({count, n}, 8));
  Tensor<T> y = cast<T>(x).copy(device);
  oracle->apply(x);
  found->apply(y);
  check_close(y, x, bound);
  oracle->apply_transpose(x);
  found->apply_transpose(y);
  check_close(y, x, 2 * bound);

  const Tensor<float> d_q = normal_tensor<float>({n, n}, 9);
  Tensor<double> expected(oracle->parameter_shape());
  Tensor<T> gradient(oracle->parameter_shape(), device);
  oracle->backward(cast<double>(d_q), expected);
  found->backward(cast<T>(d_q).copy(device), gradient);
  const double scale = frobenius_norm(d_q) / static_cast<double>(n);
  check_close(gradient, expected, 2 * bound, scale);

  Products<double> host(*oracle, count);
  Products<T> there(*found, count);
  check_close(there.a, host.a, bound);
  check_close(there.d, host.d, bound);
  if (found->coefficient_count() > 0) {
    check_close(there.z, host.z, bound);
    check_close(there.y, host.y, bound);
  }
  check_close(there.gradient(*found), host.gradient(*oracle), 2 * bound, scale);
  synchronize(device);

  const MatrixView<const T> matrix = found->dense_matrix();
  CHECK((matrix.data != nullptr) == (found->form() == "dense"));
  if (matrix.data != nullptr) {
    Tensor<T> q(Shape{n, n});
    copy<T>(TensorView<const T>(matrix.data, {n, n}, matrix.device), q);
    CHECK(equal(q, on_host(found->materialize())));
  }
}

TEMPLATE_TEST_CASE("transitions on a GPU are those of the CPU", "[orthogonal][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  const auto [n, l] = GENERATE(ReflectionSizes{1, 1}, ReflectionSizes{7, 1}, ReflectionSizes{7, 7},
                               ReflectionSizes{32, 32}, ReflectionSizes{33, 32}, ReflectionSizes{32, 5},
                               ReflectionSizes{64, 17}, ReflectionSizes{64, 64}, ReflectionSizes{65, 64},
                               ReflectionSizes{65, 65}, ReflectionSizes{190, 17});
  for (const NamedTransition& named : all_transitions_on(*device, n, l)) {
    check_transition<TestType>(named, n, *device, 5);
  }
}

TEMPLATE_TEST_CASE("large transitions on a GPU are those of the CPU", "[orthogonal][cuda][slow]", float,
                   double) {
  const auto device = gpu();
  if (!device) return;
  const auto [n, l] = GENERATE(ReflectionSizes{190, 64}, ReflectionSizes{190, 190}, ReflectionSizes{193, 65},
                               ReflectionSizes{193, 193}, ReflectionSizes{512, 100},
                               ReflectionSizes{1000, 17}, ReflectionSizes{1024, 33});
  for (const NamedTransition& named : all_transitions_on(*device, n, l)) {
    check_transition<TestType>(named, n, *device, 9);
  }
}

TEST_CASE("the automatic form on a GPU is the faster one", "[orthogonal][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const auto form = [&](Index n, Index l, Precision precision, RolloutWay way = RolloutWay::automatic) {
    return make_transition<float>(Cwy{.reflections = l}, n, Execution(*device, precision, way))->form();
  };
  const auto over_grid = [&](Index n, Precision precision) {
    const auto free = make_transition<float>(Unconstrained{}, n, Execution(*device, precision));
    return rollout_way(*free, 100, 128) == RolloutWay::grid;
  };
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    CAPTURE(name_of(precision));
    // Everything that can stay on chip, also where it may not.
    for (const Index n : {1, 192, 512}) {
      CHECK(form(n, 1, precision) == "dense");
      CHECK(form(n, 1, precision, RolloutWay::stepwise) == "dense");
    }
    // Step by step few reflections are faster as factors.
    CHECK(form(1024, 128, precision) ==
          (precision != Precision::fp32 || over_grid(1024, precision) ? "dense" : "factored"));
    CHECK(form(1024, 128, precision, RolloutWay::stepwise) ==
          (precision != Precision::fp32 ? "dense" : "factored"));
    CHECK(form(2048, 64, precision) ==
          (precision == Precision::bf16 && over_grid(2048, precision) ? "dense" : "factored"));
    CHECK(form(1024, 512, precision) == "dense");
  }
  // The larger the batch, the less the factored form has to save.
  const auto form_for_batch = [&](Index batch, Precision precision) {
    Execution execution(*device, precision);
    execution.expected_batch = batch;
    return make_transition<float>(Cwy{.reflections = 128}, precision == Precision::fp32 ? 768 : 2048,
                                  execution)
        ->form();
  };
  CHECK(form_for_batch(128, Precision::fp32) == "dense");
  CHECK(form_for_batch(1024, Precision::fp32) == "factored");
  CHECK(form_for_batch(128, Precision::tf32) == "dense");
  CHECK(form_for_batch(1024, Precision::tf32) == "factored");
  // In doubles operations alone count.
  CHECK(make_transition<double>(Cwy{.reflections = 10}, 190, *device)->form() == "factored");
  CHECK(make_transition<double>(Cwy{.reflections = 190}, 190, *device)->form() == "dense");
}

TEMPLATE_TEST_CASE("a seed gives the same parameters on every device", "[orthogonal][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  for (const Init init : {Init::henaff, Init::cayley, Init::haar, Init::normal}) {
    for (const NamedTransition& named : all_transitions_on(*device, 9, 5, init)) {
      CAPTURE(named.name, name_of(init));
      const auto here = make_transition<T>(named.options, 9);
      const auto there = make_transition<T>(named.options, 9, *device);
      Tensor<T> expected(here->parameter_shape()), found(here->parameter_shape(), *device);
      here->initialize(10, expected);
      there->initialize(10, found);
      CHECK(equal(on_host(found), expected));
      here->prepare(expected);
      const Tensor<T> q = here->materialize();
      here->parameters_of(q, expected);
      there->parameters_of(q.copy(*device), found);
      CHECK(equal(on_host(found), expected));
      // And from parameters that lie on a device, a transition there.
      TransitionOptions options = named.options;
      CHECK(prepare<T>(options, found)->device() == *device);
    }
  }
}

TEMPLATE_TEST_CASE("prepare anew on a GPU gives what a fresh transition gives", "[orthogonal][cuda]", float,
                   double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  const auto [n, l] = GENERATE(ReflectionSizes{7, 4}, ReflectionSizes{70, 66});
  for (const NamedTransition& named : all_transitions_on(*device, n, l)) {
    CAPTURE(named.name, n);
    const auto used = make_transition<T>(named.options, n, *device);
    const auto fresh = make_transition<T>(named.options, n, *device);
    const Tensor<T> d_q = normal_tensor<T>({n, n}, 11).copy(*device);
    const Tensor<T> parameters = some_parameters(*used, 12, moderate_generators).copy(*device);
    Tensor<T> found(parameters.shape(), *device), expected(parameters.shape(), *device);
    used->prepare(some_parameters(*used, 13, moderate_generators).copy(*device));
    used->backward(d_q, found);
    used->prepare(parameters);
    fresh->prepare(parameters);
    CHECK(equal(on_host(used->materialize()), on_host(fresh->materialize())));
    used->backward(d_q, found);
    fresh->backward(d_q, expected);
    CHECK(equal(on_host(found), on_host(expected)));
  }
}

TEST_CASE("reduced precision never touches Q itself", "[orthogonal][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const Index n = 20;
  for (const NamedTransition& named : all_transitions_on(*device, n, 12)) {
    CAPTURE(named.name);
    const auto exact = make_transition<float>(named.options, n, *device);
    const auto rounded = make_transition<float>(named.options, n, Execution(*device, Precision::tf32));
    const Tensor<float> parameters = some_parameters(*exact, 14, moderate_generators).copy(*device);
    exact->prepare(parameters);
    rounded->prepare(parameters);
    CHECK(equal(on_host(rounded->materialize()), on_host(exact->materialize())));
    Tensor<float> x = normal_tensor<float>({4, n}, 15).copy(*device), y = x.copy();
    exact->apply(x);
    rounded->apply(y);
    // Operands with 11 bits.
    CHECK(relative_error(on_host(y), on_host(x)) <= 2e-3);
  }
}

TEST_CASE("nearly parallel vectors cost a GPU no more digits than a CPU", "[orthogonal][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const Index n = 64;
  const double unit = static_cast<double>(n) * tolerance::epsilon<float>;
  const Tensor<float> v = nearly_parallel_vectors<float>(n, n, 0.01, 16).copy(*device);
  for (const NamedTransition& named : reflection_transitions(n)) {
    CAPTURE(named.name);
    const Tensor<float> q = on_host(prepare<float>(named.options, v)->materialize());
    CHECK(orthogonality_error_in_1_norm(q) / unit <= (std::holds_alternative<Cwy>(named.options)
                                                          ? tolerance::orthogonality_parallel_cwy
                                                          : tolerance::orthogonality_parallel_sequential));
  }
}

TEST_CASE("512 nearly parallel vectors on a GPU", "[orthogonal][cuda][slow]") {
  const auto device = gpu();
  if (!device) return;
  const Index n = 512;
  const double unit = static_cast<double>(n) * tolerance::epsilon<float>;
  const Tensor<float> v = nearly_parallel_vectors<float>(n, n, 0.01, 17).copy(*device);
  const auto q = prepare<float>(Cwy{.form = ReflectionForm::dense}, v)->materialize().copy(Device::cpu());
  CHECK(orthogonality_error_in_1_norm(q) / unit <= tolerance::orthogonality_parallel_cwy);
}

TEMPLATE_TEST_CASE("vectors of any length are normalised on a GPU", "[orthogonal][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  const bool is_float = std::is_same_v<T, float>;
  for (const double scale : {-1.0, is_float ? 1e-37 : 1e-307, is_float ? 1e37 : 1e307}) {
    CAPTURE(scale);
    Tensor<T> v = normal_tensor<T>({6, 9}, 18);
    const Tensor<double> expected = prepare<double>(Cwy{}, cast<double>(v))->materialize();
    for (T& x : v) x = static_cast<T>(static_cast<double>(x) * scale);
    CHECK(relative_error(on_host(prepare<T>(Cwy{}, v.copy(*device))->materialize()), expected) <=
          tolerance::rounding<T>(9));
  }
}

TEST_CASE("a bad reflection vector on a GPU is named when somebody waits", "[orthogonal][cuda][errors]") {
  const auto device = gpu();
  if (!device) return;
  for (const NamedTransition& named : reflection_transitions(4)) {
    CAPTURE(named.name);
    const auto transition = make_transition<float>(named.options, 6, *device);
    const Tensor<float> good = normal_tensor<float>({4, 6}, 19);
    const auto check_refused = [&](float value, bool everywhere, const std::string& why) {
      CAPTURE(value, everywhere);
      Tensor<float> v = good.copy();
      for (Index j = 0; j < 6; ++j) {
        if (everywhere || j == 3) v(2, j) = value;
      }
      const Tensor<float> there = v.copy(*device);
      CHECK_NOTHROW(transition->prepare(there));
      check_says<ValueError>([&] { synchronize(*device); }, {"reflection vector 2", why});
    };
    check_refused(0, true, "zero");
    check_refused(-0.0f, true, "zero");
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      check_refused(bad, false, "not finite");
      check_refused(bad, true, "not finite");
    }
    // And then it still works.
    transition->prepare(good.copy(*device));
    CHECK(relative_error(on_host(transition->materialize()), product_of_reflections(good)) <=
          tolerance::rounding<float>(6));
  }
}

TEST_CASE("skew parameters that are not finite or too large are refused on a GPU",
          "[orthogonal][cuda][errors]") {
  const auto device = gpu();
  if (!device) return;
  const auto check_refused = [&](const TransitionOptions& options, double value, const std::string& why) {
    CAPTURE(name_of(options), value);
    const auto transition = make_transition<float>(options, 5, *device);
    Tensor<float> x = some_parameters(*transition, 20, moderate_generators);
    x(3, 1) = static_cast<float>(value);
    const Tensor<float> there = x.copy(*device);
    check_says<ValueError>(
        [&] {
          transition->prepare(there);
          synchronize(*device);
        },
        {why});
    CHECK_NOTHROW(synchronize(*device));
  };
  for (const TransitionOptions& options : {TransitionOptions(ScaledCayley{}), {MatrixExponential{}}}) {
    check_refused(options, NAN, "not finite");
    check_refused(options, INFINITY, "not finite");
    check_refused(options, 1e6, "too large");
  }
}

TEST_CASE("tensors on the wrong device are refused", "[orthogonal][cuda][errors]") {
  const auto device = gpu();
  if (!device) return;
  for (const NamedTransition& named : all_transitions_on(*device, 6, 4)) {
    CAPTURE(named.name);
    const auto transition = make_transition<double>(named.options, 6, *device);
    const Tensor<double> parameters = some_parameters(*transition, 21, moderate_generators);
    check_says<DeviceError>([&] { transition->prepare(parameters); }, {"cpu", "cuda:0"});
    transition->prepare(parameters.copy(*device));
    Tensor<double> h({3, 6}), d_q({6, 6}), gradient(parameters.shape());
    CHECK_THROWS_AS(transition->apply(h), DeviceError);
    CHECK_THROWS_AS(transition->backward(d_q, gradient), DeviceError);
  }
}

/// Runs the test only where its functions exist.
bool can_record() {
  if constexpr (!has_cuda_bodies) {
    std::printf("skipped: the tests were compiled without ORTHORNN_WITH_CUDA\n");
    return false;
  }
  return true;
}

TEMPLATE_TEST_CASE("nothing on a GPU allocates after the first step", "[orthogonal][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device || !can_record()) return;
  if constexpr (has_cuda_bodies) {
    const Index n = 70, count = 6;
    for (const NamedTransition& named : all_transitions_on(*device, n, 66)) {
      CAPTURE(named.name);
      const auto transition = make_transition<T>(named.options, n, *device);
      const Tensor<T> parameters = some_parameters(*transition, 22, moderate_generators).copy(*device);
      const Tensor<T> d_q = normal_tensor<T>({n, n}, 23).copy(*device);
      Tensor<T> gradient(parameters.shape(), *device);
      transition->prepare(parameters);
      Products<T> products(*transition, count);
      const auto step = [&] {
        transition->prepare(parameters);
        transition->multiply_add(columns_of(std::as_const(products.h)), columns_of(products.a),
                                 products.view(products.z));
        transition->multiply_add_transposed(columns_of(std::as_const(products.g)), columns_of(products.d),
                                            products.view(products.y));
        transition->backward(d_q, gradient);
        transition->backward_of_rollout(columns_of(std::as_const(products.g)),
                                        columns_of(std::as_const(products.h)), products.view(products.z),
                                        products.view(products.y), gradient);
      };
      step();
      const std::uint64_t before = cuda::memory_changes(*device);
      step();
      CHECK(cuda::memory_changes(*device) == before);
    }
  }
}

TEMPLATE_TEST_CASE("prepare and backward can be recorded into a graph", "[orthogonal][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device || !can_record()) return;
  if constexpr (has_cuda_bodies) {
    const Index n = 70;
    for (const NamedTransition& named : all_transitions_on(*device, n, 66)) {
      CAPTURE(named.name);
      const auto transition = make_transition<T>(named.options, n, *device);
      const bool waits = std::holds_alternative<MatrixExponential>(named.options) ||
                         std::holds_alternative<ScaledCayley>(named.options) ||
                         std::holds_alternative<WeightNormalization>(named.options);
      const bool is_too_long = transition->form() == "rank-one";
      CHECK(transition->recordable() == !(waits || is_too_long));
      if (waits) continue;
      Tensor<T> parameters = some_parameters(*transition, 24, moderate_generators).copy(*device);
      const Tensor<T> d_q = normal_tensor<T>({n, n}, 25).copy(*device);
      Tensor<T> found(parameters.shape(), *device), expected(parameters.shape(), *device);
      const auto step = [&] {
        transition->prepare(parameters);
        transition->backward(d_q, found);
      };
      step();
      cuda::Graph graph;
      graph.record(*device, step);
      // Other parameters in the same memory.
      copy<T>(some_parameters(*transition, 26, moderate_generators).copy(*device), parameters);
      graph.launch();
      const auto fresh = make_transition<T>(named.options, n, *device);
      fresh->prepare(parameters);
      fresh->backward(d_q, expected);
      CHECK(equal(on_host(found), on_host(expected)));
      CHECK(equal(on_host(transition->materialize()), on_host(fresh->materialize())));
    }
  }
}

}  // namespace
}  // namespace orthornn::testing
