// Rollouts and transitions on a GPU through the C interface, against the same calls on the CPU.

#include <array>
#include <functional>
#include <vector>

#include "c_api/gpu_case.hpp"
#include "core/back_end.hpp"
#include "cuda/core/graph.hpp"
#include "linalg/decompositions.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

/// A rollout forward and backward. NULL is the CPU.
template <class T>
struct RolloutCalls {
  orthornn_rollout sizes;
  const orthornn_device* device;
  Tensor<T> q, modrelu_bias, inputs, h_0, d_outputs, d_h_last;
  Tensor<std::int32_t> lengths;
  Tensor<T> outputs, h_last, d_inputs, d_h_0, d_q, d_modrelu_bias;
  Tensor<std::int8_t> signs;
  std::unique_ptr<AnyWorkspace> for_forward, for_backward;

  RolloutCalls(std::int32_t activation, std::int32_t precision, const std::array<Index, 3>& shape,
               const orthornn_device* on)
      : sizes{dtype_of<T>, activation, precision, 0, shape[0], shape[1], shape[2]}, device(on) {
    const auto [length, batch, size] = shape;
    // Numbers that a float can hold, so that both types compute with the same ones.
    const auto draw = [&](const Shape& of, std::uint64_t seed, double deviation) {
      return cast<T>(normal_tensor<float>(of, seed, deviation));
    };
    q = draw({size, size}, 1, 0.5 / std::sqrt(static_cast<double>(size)));
    modrelu_bias = draw({size}, 2, 0.1);
    inputs = draw({length, batch, size}, 3, 1);
    h_0 = draw({batch, size}, 4, 1);
    d_outputs = draw({length, batch, size}, 5, 1);
    d_h_last = draw({batch, size}, 6, 1);
    lengths.resize({batch});
    for (Index b = 0; b < batch; ++b) lengths(b) = static_cast<std::int32_t>((b + length) % (length + 1));
    outputs.resize({length, batch, size});
    h_last.resize(h_0.shape());
    d_inputs.resize(inputs.shape());
    d_h_0.resize(h_0.shape());
    d_q.resize(q.shape());
    d_modrelu_bias.resize(modrelu_bias.shape());
    signs.resize(inputs.shape());
    if (device != nullptr) move_to(Device::cuda(device->index));
    for_forward = std::make_unique<AnyWorkspace>(
        device, asked_bytes(orthornn_rollout_forward_workspace, device, &sizes));
    for_backward = std::make_unique<AnyWorkspace>(
        device, asked_bytes(orthornn_rollout_backward_workspace, device, &sizes));
  }

  void move_to(Device where) {
    for (Tensor<T>* x : {&q, &modrelu_bias, &inputs, &h_0, &d_outputs, &d_h_last, &outputs, &h_last,
                         &d_inputs, &d_h_0, &d_q, &d_modrelu_bias})
      *x = x->copy(where);
    lengths = lengths.copy(where);
    signs = signs.copy(where);
  }

  void run() {
    const bool has_signs = sizes.activation == ORTHORNN_ABS, has_bias = sizes.activation == ORTHORNN_MODRELU;
    std::int8_t* const kept_signs = has_signs ? signs.data() : nullptr;
    require_status(orthornn_rollout_forward(
        device, &sizes, q.data(), has_bias ? modrelu_bias.data() : nullptr, lengths.data(), inputs.data(),
        h_0.data(), outputs.data(), h_last.data(), kept_signs, for_forward->data(), for_forward->bytes()));
    require_status(orthornn_rollout_backward(
        device, &sizes, q.data(), lengths.data(), h_0.data(), outputs.data(), kept_signs, d_outputs.data(),
        d_h_last.data(), d_inputs.data(), d_h_0.data(), d_q.data(),
        has_bias ? d_modrelu_bias.data() : nullptr, for_backward->data(), for_backward->bytes()));
  }
  std::vector<std::pair<const char*, Tensor<T>*>> results() {
    std::vector<std::pair<const char*, Tensor<T>*>> all = {{"outputs", &outputs},
                                                           {"h_last", &h_last},
                                                           {"d_inputs", &d_inputs},
                                                           {"d_h_0", &d_h_0},
                                                           {"d_q", &d_q}};
    if (sizes.activation == ORTHORNN_MODRELU) all.emplace_back("d_modrelu_bias", &d_modrelu_bias);
    return all;
  }
};

/// Kinds of MatrixCalls beside those of transitions.
constexpr std::int32_t tcwy = -1 - ORTHORNN_STIEFEL_TCWY, stiefel_own = -1 - ORTHORNN_STIEFEL_OWN;

/// Q or Omega of parameters, and its gradient.
template <class T>
struct MatrixCalls {
  /// A kind of transition; or -1 - k for kind k of a point of a Stiefel manifold.
  std::int32_t kind;
  Index size, reflections;
  const orthornn_device* device;
  Tensor<T> parameters, d_q, q, d_parameters;
  std::unique_ptr<AnyWorkspace> for_forward, for_backward;

  MatrixCalls(std::int32_t of_kind, Index n, Index l, const orthornn_device* on)
      : kind(of_kind), size(n), reflections(l), device(on) {
    const bool reflects = kind == tcwy || reflects_transition();
    const Shape of_q{n, kind < 0 ? l : n};
    const double deviation = reflects ? 1 : 1 / std::sqrt(static_cast<double>(n));
    parameters = cast<T>(normal_tensor<float>(reflects ? Shape{l, n} : of_q, 1, deviation));
    // |V - 3 I| is 2, so that V is far from a smaller rank.
    const bool is_own = kind == ORTHORNN_OWN || kind == stiefel_own;
    for (Index i = 0; is_own && i < of_q[1]; ++i) parameters(i, i) += 3;
    d_q = cast<T>(normal_tensor<float>(of_q, 2));
    q.resize(of_q);
    d_parameters.resize(parameters.shape());
    if (device != nullptr) {
      for (Tensor<T>* x : {&parameters, &d_q, &q, &d_parameters}) *x = x->copy(Device::cuda(device->index));
    }
    for_forward = workspace(orthornn_transition_forward_workspace, orthornn_stiefel_forward_workspace);
    for_backward = workspace(orthornn_transition_backward_workspace, orthornn_stiefel_backward_workspace);
  }

  bool reflects_transition() const { return kind == ORTHORNN_CWY || kind == ORTHORNN_HOUSEHOLDER; }
  orthornn_transition transition() const {
    return {dtype_of<T>, kind, size, reflects_transition() ? reflections : 0, 0};
  }
  orthornn_stiefel stiefel() const { return {dtype_of<T>, -1 - kind, size, reflections}; }
  std::unique_ptr<AnyWorkspace> workspace(auto of_transition, auto of_stiefel) const {
    std::int64_t bytes = -1;
    const orthornn_transition q_of = transition();
    const orthornn_stiefel omega_of = stiefel();
    require_status(kind < 0 ? of_stiefel(device, &omega_of, &bytes) : of_transition(device, &q_of, &bytes));
    return std::make_unique<AnyWorkspace>(device, bytes);
  }

  orthornn_status forward() {
    const orthornn_transition q_of = transition();
    const orthornn_stiefel omega_of = stiefel();
    void* const memory = for_forward->data();
    const std::int64_t bytes = for_forward->bytes();
    return kind < 0 ? orthornn_stiefel_forward(device, &omega_of, parameters.data(), q.data(), memory, bytes)
                    : orthornn_transition_forward(device, &q_of, parameters.data(), q.data(), memory, bytes);
  }
  orthornn_status backward() {
    const orthornn_transition q_of = transition();
    const orthornn_stiefel omega_of = stiefel();
    void* const memory = for_backward->data();
    const std::int64_t bytes = for_backward->bytes();
    return kind < 0 ? orthornn_stiefel_backward(device, &omega_of, parameters.data(), d_q.data(),
                                                d_parameters.data(), memory, bytes)
                    : orthornn_transition_backward(device, &q_of, parameters.data(), d_q.data(),
                                                   d_parameters.data(), memory, bytes);
  }
  void run() {
    require_status(forward());
    require_status(backward());
  }
  std::vector<std::pair<const char*, Tensor<T>*>> results() {
    return {{"q", &q}, {"d_parameters", &d_parameters}};
  }
};

/// Runs once more in a caller's capture, and launches that twice.
void check_recorded(auto& c, Device device) {
  if constexpr (has_cuda_bodies) {
    c.run();
    using Result = std::remove_cvref_t<decltype(c.results()[0].second->copy())>;
    std::vector<Result> expected;
    for (auto [name, x] : c.results()) expected.push_back(x->copy(Device::cpu()));
    spoil_results(c);
    cuda::Graph graph;
    graph.record(device, [&] { c.run(); });
    CHECK_FALSE(same_bits(c.results()[0].second->copy(Device::cpu()), expected[0]));
    for (int launch = 0; launch < 2; ++launch) {
      graph.launch();
      require_results(c, expected, expected.size());
    }
  }
}

/// Rollouts that are resident in a multiprocessor, over a cluster, and step by step.
constexpr std::array<Index, 3> rollout_shapes[] = {{5, 3, 7}, {9, 4, 128}, {6, 5, 512}, {3, 40, 1100}};

}  // namespace

TEMPLATE_TEST_CASE("Rollouts on a GPU through the C interface are those of the CPU", "[c_api][cuda]", float,
                   double) {
  const auto device = gpu();
  if (!device) return;
  const orthornn_device there = on_own_stream(*device);
  for (const std::array<Index, 3>& shape : rollout_shapes) {
    for (const std::int32_t activation : {ORTHORNN_TANH, ORTHORNN_ABS, ORTHORNN_MODRELU}) {
      CAPTURE(shape[0], shape[1], shape[2], activation);
      RolloutCalls<double> expected(activation, ORTHORNN_PRECISION_FP32, shape, nullptr);
      expected.run();
      RolloutCalls<TestType> found(activation, ORTHORNN_PRECISION_FP32, shape, &there);
      found.run();
      // Products of N numbers, in a few steps.
      check_near(found, expected, 100 * tolerance::rounding<TestType>(shape[2]));
    }
  }
}

TEST_CASE("Rollouts on a GPU from no state start from zeros", "[c_api][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const orthornn_device there = on_own_stream(*device);
  for (const std::array<Index, 3>& shape : rollout_shapes) {
    CAPTURE(shape[0], shape[1], shape[2]);
    RolloutCalls<float> zeros(ORTHORNN_TANH, ORTHORNN_PRECISION_FP32, shape, &there),
        none(ORTHORNN_TANH, ORTHORNN_PRECISION_FP32, shape, &there);
    zeros.h_0.resize(zeros.h_0.shape());
    none.h_0 = Tensor<float>();
    zeros.run();
    none.run();
    for (std::size_t i = 0; i < none.results().size(); ++i) {
      const auto [name, found] = none.results()[i];
      INFO(name);
      // The sums of dQ lack the products with zeros.
      CHECK(relative_error(found->copy(Device::cpu()), zeros.results()[i].second->copy(Device::cpu())) <=
            tolerance::rounding<float>(shape[0] * shape[1]));
    }
  }
}

TEST_CASE("Rollouts on a GPU without steps or sequences have gradients of zeros", "[c_api][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const orthornn_device there = on_own_stream(*device);
  for (const std::array<Index, 3>& shape : {std::array<Index, 3>{0, 3, 8}, {4, 0, 8}}) {
    CAPTURE(shape[0], shape[1]);
    RolloutCalls<float> c(ORTHORNN_MODRELU, ORTHORNN_PRECISION_FP32, shape, &there);
    spoil_results(c);
    c.run();
    for (const Tensor<float>* sum : {&c.d_q, &c.d_modrelu_bias}) {
      const Tensor<float> here = sum->copy(Device::cpu());
      CHECK(std::all_of(here.begin(), here.end(), [](float x) { return x == 0; }));
    }
  }
}

TEMPLATE_TEST_CASE("Transitions on a GPU through the C interface are those of the CPU", "[c_api][cuda]",
                   float, double) {
  const auto device = gpu();
  if (!device) return;
  const orthornn_device there = on_own_stream(*device);
  for (std::int32_t kind = stiefel_own; kind <= ORTHORNN_OWN; ++kind) {
    if ((kind == ORTHORNN_OWN || kind == stiefel_own) && !has_decompositions(*device)) continue;
    for (const auto& [size, reflections] : {std::pair<Index, Index>{5, 3}, {64, 64}, {130, 40}}) {
      CAPTURE(kind, size, reflections);
      MatrixCalls<double> expected(kind, size, reflections, nullptr);
      expected.run();
      MatrixCalls<TestType> found(kind, size, reflections, &there);
      found.run();
      // The condition of I + A and of S is some hundreds for such parameters.
      check_near(found, expected, 1000 * tolerance::rounding<TestType>(size));
    }
  }
}

TEST_CASE("Rollouts and transitions that a caller captures give equal bits at every launch",
          "[c_api][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const orthornn_device there = on_own_stream(*device);
  for (const std::array<Index, 3>& shape : rollout_shapes) {
    for (const std::int32_t precision : {ORTHORNN_PRECISION_FP32, ORTHORNN_PRECISION_TF32}) {
      CAPTURE(shape[0], shape[1], shape[2], precision);
      RolloutCalls<float> c(ORTHORNN_MODRELU, precision, shape, &there);
      check_recorded(c, *device);
    }
  }
  for (const std::int32_t kind : {tcwy, int{ORTHORNN_CWY}, int{ORTHORNN_HOUSEHOLDER}}) {
    CAPTURE(kind);
    MatrixCalls<float> c(kind, 130, 40, &there);
    check_recorded(c, *device);
  }
}

TEST_CASE("An operation that waits for the GPU says in a capture that it cannot", "[c_api][cuda]") {
  const auto device = gpu();
  if (!device) return;
  if constexpr (has_cuda_bodies) {
    const orthornn_device there = on_own_stream(*device);
    MatrixCalls<float> c(ORTHORNN_EXPM, 130, 0, &there);
    c.run();
    const Tensor<float> expected = c.q.copy(Device::cpu());
    cuda::Graph graph;
    graph.record(*device, [&] {
      require_error(c.forward(), ORTHORNN_DEVICE_ERROR, "recorded");
      require_error(orthornn_synchronize(&there), ORTHORNN_DEVICE_ERROR, "recorded");
    });
    require_status(c.forward());
    CHECK(same_bits(c.q.copy(Device::cpu()), expected));
  }
}

TEST_CASE("What only a GPU finds wrong is returned when somebody waits", "[c_api][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const orthornn_device there = on_own_stream(*device);
  MatrixCalls<float> c(ORTHORNN_CWY, 5, 3, &there);
  c.parameters.resize(c.parameters.shape());
  require_status(c.forward());
  require_error(orthornn_synchronize(&there), ORTHORNN_INVALID_VALUE, "reflection vector 0 is zero");
  require_status(orthornn_synchronize(&there));
}

}  // namespace orthornn::testing
