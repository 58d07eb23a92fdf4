// Q and Omega through the C interface, against the C++ one.

#include "orthornn/orthogonal/transition.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "c_api/c_case.hpp"
#include "orthornn/linalg/orthogonality.hpp"
#include "orthornn/orthogonal/truncated_cwy.hpp"
#include "support/finite_differences.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {
namespace {

template <class T>
Tensor<T> c_forward(const orthornn_transition& transition, const Tensor<T>& parameters) {
  Workspace workspace(asked_bytes(orthornn_transition_forward_workspace, nullptr, &transition));
  Tensor<T> q({transition.size, transition.size});
  require_status(orthornn_transition_forward(nullptr, &transition, parameters.data(), q.data(),
                                             workspace.data(), workspace.bytes()));
  return q;
}

template <class T>
Tensor<T> c_backward(const orthornn_transition& transition, const Tensor<T>& parameters,
                     const Tensor<T>& d_q) {
  Workspace workspace(asked_bytes(orthornn_transition_backward_workspace, nullptr, &transition));
  Tensor<T> d_parameters(parameters.shape());
  require_status(orthornn_transition_backward(nullptr, &transition, parameters.data(), d_q.data(),
                                              d_parameters.data(), workspace.data(), workspace.bytes()));
  return d_parameters;
}

TransitionOptions cpp_options(const orthornn_transition& transition) {
  switch (transition.kind) {
    case ORTHORNN_CWY:
      return Cwy{.reflections = transition.reflections, .form = ReflectionForm::dense};
    case ORTHORNN_HOUSEHOLDER:
      return HouseholderProduct{.reflections = transition.reflections};
    case ORTHORNN_CAYLEY:
      return ScaledCayley{.negative_signs = transition.negative_signs};
    case ORTHORNN_EXPM:
      return MatrixExponential{};
    default:
      return WeightNormalization{};
  }
}

std::vector<orthornn_transition> transitions(std::int32_t dtype, std::int64_t n) {
  return {{dtype, ORTHORNN_CWY, n, (n + 1) / 2, 0},
          {dtype, ORTHORNN_CWY, n, 0, 0},
          {dtype, ORTHORNN_HOUSEHOLDER, n, (n + 2) / 3, 0},
          {dtype, ORTHORNN_HOUSEHOLDER, n, n, 0},
          {dtype, ORTHORNN_CAYLEY, n, 0, n / 2},
          {dtype, ORTHORNN_EXPM, n, 0, 0},
          {dtype, ORTHORNN_OWN, n, 0, 0}};
}

template <class T>
Tensor<T> drawn(const orthornn_transition& transition) {
  std::int64_t shape[2];
  require_status(orthornn_transition_parameter_shape(&transition, shape));
  Tensor<T> parameters({shape[0], shape[1]});
  require_status(orthornn_transition_initialize(&transition, ORTHORNN_INIT_NORMAL, 7, parameters.data()));
  if (transition.kind == ORTHORNN_OWN) {
    // The drawn V is orthogonal, so that (V^T V)^-1/2 = I. One at a distance of about 0.6 is not, and it is
    // far from singular.
    const Tensor<T> distance =
        normal_tensor<T>(parameters.shape(), 8, 0.3 / std::sqrt(static_cast<double>(transition.size)));
    for (Index i = 0; i < parameters.size(); ++i) parameters.data()[i] += distance.data()[i];
  }
  return parameters;
}

}  // namespace

TEMPLATE_TEST_CASE("Q through the C interface has the bits of the C++ one", "[c_api]", float, double) {
  for (const std::int64_t n : {1, 2, 3, 16, 17, 64, 100, 129}) {
    for (const orthornn_transition& transition : transitions(dtype_of<TestType>, n)) {
      CAPTURE(n, transition.kind, transition.reflections);
      const Tensor<TestType> parameters = drawn<TestType>(transition);
      auto expected = make_transition<TestType>(cpp_options(transition), n);
      expected->prepare(parameters);
      REQUIRE(same_bits<TestType>(c_forward(transition, parameters), expected->materialize()));
      const Tensor<TestType> d_q = normal_tensor<TestType>({n, n}, 3);
      Tensor<TestType> d_parameters(parameters.shape());
      expected->backward(d_q, d_parameters);
      REQUIRE(same_bits<TestType>(c_backward(transition, parameters, d_q), d_parameters));
    }
  }
}

TEST_CASE("Gradients of Q through the C interface are those of finite differences", "[c_api][gradient]") {
  for (const orthornn_transition& transition : transitions(ORTHORNN_F64, 6)) {
    CAPTURE(transition.kind);
    Tensor<double> parameters = drawn<double>(transition);
    const Tensor<double> weights = normal_tensor<double>({6, 6}, 5);
    const Tensor<double> gradient = c_backward(transition, parameters, weights);
    const Tensor<double> expected = finite_differences(
        parameters.view(), [&] { return inner_product(c_forward(transition, parameters), weights); });
    for (Index i = 0; i < gradient.size(); ++i)
      CHECK(gradient.data()[i] == Approx(expected.data()[i]).epsilon(1e-7).margin(1e-8));
  }
}

TEST_CASE("Parameters of a given Q give it back through the C interface", "[c_api]") {
  for (orthornn_transition transition : transitions(ORTHORNN_F64, 12)) {
    if (transition.reflections == 4 || transition.reflections == 6) transition.reflections = 12;
    CAPTURE(transition.kind);
    const Tensor<double> q = c_forward(transition, drawn<double>(transition));
    Tensor<double> found({12, 12});
    require_status(orthornn_transition_parameters_of(&transition, q.data(), found.data()));
    const Tensor<double> again = c_forward(transition, found);
    for (Index i = 0; i < q.size(); ++i) CHECK(again.data()[i] == Approx(q.data()[i]).margin(1e-12));
  }
}

TEST_CASE("Bad arguments of transitions are statuses that name the argument", "[c_api]") {
  const orthornn_transition good{ORTHORNN_F32, ORTHORNN_CWY, 4, 2, 0};
  std::vector<float> v(8, 1), q(16);
  std::int64_t bytes = 0;
  require_status(orthornn_transition_forward_workspace(nullptr, &good, &bytes));
  std::vector<char> memory(static_cast<std::size_t>(bytes));
  const auto forward = [&](const orthornn_transition& transition) {
    return orthornn_transition_forward(nullptr, &transition, v.data(), q.data(), memory.data(), bytes);
  };
  require_status(forward(good));
  const auto with = [&](auto member, auto value) {
    orthornn_transition changed = good;
    changed.*member = value;
    return changed;
  };
  constexpr auto bad = ORTHORNN_INVALID_ARGUMENT;
  using Options = orthornn_transition;
  require_error(forward(with(&Options::dtype, 9)), bad, "dtype is 9");
  require_error(forward(with(&Options::dtype, ORTHORNN_BF16)), bad, "dtype is 2");
  require_error(forward(with(&Options::kind, 5)), bad, "kind is 5, expected 0 to 4");
  require_error(forward(with(&Options::kind, -1)), bad, "kind is -1");
  require_error(forward(with(&Options::size, 0)), bad, "size is 0");
  require_error(forward(with(&Options::size, -4)), bad, "size is -4");
  require_error(forward(with(&Options::size, std::int64_t{1} << 27)), bad,
                "transition.size is 134217728, expected 1 to 134217727");
  require_error(forward(with(&Options::size, std::numeric_limits<std::int64_t>::max())), bad, "size is");
  require_error(forward(with(&Options::reflections, 5)), bad, "reflections is 5, expected 0 to 4");
  require_error(forward(with(&Options::negative_signs, 1)), bad, "negative_signs is 1");
  require_error(orthornn_transition_forward(nullptr, nullptr, v.data(), q.data(), memory.data(), bytes), bad,
                "transition is NULL");
  require_error(orthornn_transition_forward(nullptr, &good, nullptr, q.data(), memory.data(), bytes), bad,
                "parameters is NULL");
  require_error(orthornn_transition_forward(nullptr, &good, v.data(), nullptr, memory.data(), bytes), bad,
                "q is NULL");
  require_error(orthornn_transition_forward(nullptr, &good, v.data(), q.data(), nullptr, bytes), bad,
                "workspace is NULL");
  require_error(
      orthornn_transition_forward(nullptr, &good, v.data(), q.data(), memory.data(), bytes - 1), bad,
      "the workspace has " + std::to_string(bytes - 1) + " bytes, expected " + std::to_string(bytes));
  require_error(orthornn_transition_forward(nullptr, &good, v.data(), q.data(), memory.data(), -1), bad,
                "workspace_bytes is -1");
  require_error(orthornn_transition_forward_workspace(nullptr, &good, nullptr), bad, "bytes is NULL");
  require_error(orthornn_transition_forward(nullptr, &good, reinterpret_cast<char*>(v.data()) + 1, q.data(),
                                            memory.data(), bytes),
                bad, "address of parameters");
  orthornn_device device{2, 0, nullptr};
  require_error(orthornn_transition_forward(&device, &good, v.data(), q.data(), memory.data(), bytes), bad,
                "device.kind is 2");
  device = {ORTHORNN_CUDA, 1000, nullptr};
  require_status(orthornn_check_device(&device), ORTHORNN_DEVICE_ERROR);
  device = {ORTHORNN_CUDA, -1, nullptr};
  require_error(orthornn_check_device(&device), bad, "device.index is -1");
  std::fill(v.begin(), v.begin() + 4, 0.0F);
  require_error(forward(good), ORTHORNN_INVALID_VALUE, "reflection vector 0");
  require_error(orthornn_transition_initialize(&good, 4, 1, v.data()), bad, "init is 4");
}

TEST_CASE("A singular V of orthogonal weight normalization is a status", "[c_api]") {
  const orthornn_transition transition{ORTHORNN_F64, ORTHORNN_OWN, 3, 0, 0};
  Tensor<double> v({3, 3}), d_v({3, 3}), q({3, 3});
  std::fill(v.begin(), v.end(), 1.0);
  Workspace forward(asked_bytes(orthornn_transition_forward_workspace, nullptr, &transition)),
      backward(asked_bytes(orthornn_transition_backward_workspace, nullptr, &transition));
  require_error(
      orthornn_transition_forward(nullptr, &transition, v.data(), q.data(), forward.data(), forward.bytes()),
      ORTHORNN_INVALID_VALUE, "not linearly independent");
  require_error(orthornn_transition_backward(nullptr, &transition, v.data(), q.data(), d_v.data(),
                                             backward.data(), backward.bytes()),
                ORTHORNN_INVALID_VALUE, "not linearly independent");
}

TEST_CASE("Points of Stiefel manifolds through the C interface", "[c_api]") {
  const auto check = [](std::int32_t number, StiefelKind kind, Index n, Index m) {
    CAPTURE(number, n, m);
    const orthornn_stiefel stiefel{ORTHORNN_F64, number, n, m};
    const Shape shape = stiefel_parameter(kind, n, m).shape;
    Tensor<double> parameters(shape), omega({n, m}), made({n, m}), d_parameters(shape), expected(shape),
        found(shape);
    require_status(orthornn_stiefel_initialize(&stiefel, 3, parameters.data()));
    if (kind == StiefelKind::weight_normalization)
      for (Index i = 0; i < m; ++i) parameters(i, i) += 2;  // no longer the point itself
    std::int64_t bytes = 0;
    require_status(orthornn_stiefel_forward_workspace(nullptr, &stiefel, &bytes));
    Workspace workspace(bytes);
    require_status(orthornn_stiefel_forward(nullptr, &stiefel, parameters.data(), omega.data(),
                                            workspace.data(), workspace.bytes()));
    const auto point = make_stiefel_point<double>(kind, n, m);
    point->prepare(parameters);
    copy<double>(point->omega(), made);
    REQUIRE(same_bits<double>(omega, made));
    const Tensor<double> d_omega = normal_tensor<double>({n, m}, 4);
    point->backward(d_omega, expected);
    std::int64_t backward_bytes = 0;
    require_status(orthornn_stiefel_backward_workspace(nullptr, &stiefel, &backward_bytes));
    Workspace backward(backward_bytes);
    require_status(orthornn_stiefel_backward(nullptr, &stiefel, parameters.data(), d_omega.data(),
                                             d_parameters.data(), backward.data(), backward_bytes));
    REQUIRE(same_bits<double>(d_parameters, expected));
    require_status(orthornn_stiefel_parameters_of(&stiefel, omega.data(), found.data()));
    point->prepare(found);
    const auto again = point->omega();
    for (Index i = 0; i < omega.size(); ++i) CHECK(again.data()[i] == Approx(omega.data()[i]).margin(1e-12));
  };
  for (const auto& [number, kind] :
       {std::pair(std::int32_t{ORTHORNN_STIEFEL_TCWY}, StiefelKind::truncated_cwy),
        std::pair(std::int32_t{ORTHORNN_STIEFEL_OWN}, StiefelKind::weight_normalization)}) {
    check(number, kind, 1, 1);
    check(number, kind, 5, 1);
    check(number, kind, 7, 3);
    check(number, kind, 40, 40);
    check(number, kind, 96, 33);
  }
  const orthornn_stiefel unknown{ORTHORNN_F64, 2, 3, 2};
  std::int64_t bytes = 0;
  require_error(orthornn_stiefel_forward_workspace(nullptr, &unknown, &bytes), ORTHORNN_INVALID_ARGUMENT,
                "stiefel.kind");
}

TEST_CASE("T-CWY finds vectors of unit columns, and says which square matrices have none", "[c_api]") {
  for (const Index n : {1, 2, 3, 4, 5}) {
    for (const Index m : {Index{1}, n}) {
      const orthornn_stiefel stiefel{ORTHORNN_F64, ORTHORNN_STIEFEL_TCWY, n, m};
      Tensor<double> omega({n, m}), found({m, n});
      for (Index i = 0; i < m; ++i) omega(i, i) = 1;
      CAPTURE(n, m);
      if (m == n && n % 2 == 1) {
        require_error(orthornn_stiefel_parameters_of(&stiefel, omega.data(), found.data()),
                      ORTHORNN_INVALID_VALUE, "determinant");
        omega(0, 0) = -1;
      }
      require_status(orthornn_stiefel_parameters_of(&stiefel, omega.data(), found.data()));
      TruncatedCwy<double> cwy(n, m);
      cwy.prepare(found);
      const Tensor<double> again = cwy.materialize();
      for (Index i = 0; i < omega.size(); ++i)
        CHECK(again.data()[i] == Approx(omega.data()[i]).margin(1e-14));
    }
  }
  const orthornn_stiefel stiefel{ORTHORNN_F32, ORTHORNN_STIEFEL_TCWY, 3, 2};
  std::vector<float> twice(6, 1), found(6);
  require_error(orthornn_stiefel_parameters_of(&stiefel, twice.data(), found.data()), ORTHORNN_INVALID_VALUE,
                "not orthonormal");
  const orthornn_stiefel wide{ORTHORNN_F32, ORTHORNN_STIEFEL_TCWY, 3, 4};
  require_error(orthornn_stiefel_parameters_of(&wide, twice.data(), found.data()), ORTHORNN_INVALID_ARGUMENT,
                "columns is 4, expected 1 to 3");
}

TEST_CASE("Threads use the C interface at once, and each has its own message", "[c_api]") {
  const orthornn_transition transition{ORTHORNN_F64, ORTHORNN_EXPM, 48, 0, 0};
  const Tensor<double> parameters = drawn<double>(transition);
  const Tensor<double> expected = c_forward(transition, parameters);
  bool right[2] = {true, true};
  const auto work = [&](int number) {
    for (int i = 0; i < 20; ++i) {
      std::int64_t bytes = 0;
      orthornn_transition_forward_workspace(nullptr, &transition, &bytes);
      std::vector<char> memory(static_cast<std::size_t>(bytes));
      Tensor<double> q({48, 48});
      const bool done = orthornn_transition_forward(nullptr, &transition, parameters.data(), q.data(),
                                                    memory.data(), bytes) == ORTHORNN_OK;
      orthornn_transition bad = transition;
      bad.kind = 10 + number;
      orthornn_transition_forward_workspace(nullptr, &bad, &bytes);
      const std::string message = orthornn_last_message();
      right[number] = right[number] && done && same_bits<double>(q, expected) &&
                      message.find("kind is 1" + std::to_string(number)) != std::string::npos;
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  CHECK((right[0] && right[1]));
}

}  // namespace orthornn::testing
