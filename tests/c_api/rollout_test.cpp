// Rollouts through the C interface, against the C++ ones.

#include "orthornn/rollouts/rollout.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <thread>

#include "c_api/c_case.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

/// What a rollout and its backward read, and what they wrote.
template <class T>
struct RolloutCase {
  orthornn_rollout sizes;
  Tensor<T> q, modrelu_bias, inputs, h_0, d_outputs, d_h_last;
  Tensor<std::int32_t> lengths;
  Tensor<T> outputs, h_last, d_inputs, d_h_0, d_q, d_modrelu_bias;
  Tensor<std::int8_t> signs;

  RolloutCase(std::int32_t activation, Index length, Index batch, Index size, bool ragged)
      : sizes{dtype_of<T>, activation, ORTHORNN_PRECISION_FP32, 0, length, batch, size},
        q(normal_tensor<T>({size, size}, 1, 0.3)),
        modrelu_bias(normal_tensor<T>({size}, 2, 0.1)),
        inputs(normal_tensor<T>({length, batch, size}, 3)),
        h_0(normal_tensor<T>({batch, size}, 4)),
        d_outputs(normal_tensor<T>({length, batch, size}, 5)),
        d_h_last(normal_tensor<T>({batch, size}, 6)),
        outputs({length, batch, size}),
        h_last({batch, size}),
        d_inputs({length, batch, size}),
        d_h_0({batch, size}),
        d_q({size, size}),
        d_modrelu_bias({size}),
        signs({length, batch, size}) {
    if (!ragged) return;
    lengths.resize({batch});
    for (Index b = 0; b < batch; ++b) lengths(b) = static_cast<std::int32_t>(b % (length + 1));
  }

  bool has_signs() const { return sizes.activation == ORTHORNN_ABS; }
  const T* bias() const { return sizes.activation == ORTHORNN_MODRELU ? modrelu_bias.data() : nullptr; }
  const std::int32_t* given_lengths() const { return lengths.empty() ? nullptr : lengths.data(); }

  orthornn_status forward() {
    Workspace workspace(asked_bytes(orthornn_rollout_forward_workspace, nullptr, &sizes));
    return orthornn_rollout_forward(
        nullptr, &sizes, q.data(), bias(), given_lengths(), inputs.data(), h_0.data(), outputs.data(),
        h_last.data(), has_signs() ? signs.data() : nullptr, workspace.data(), workspace.bytes());
  }
  orthornn_status backward() {
    Workspace workspace(asked_bytes(orthornn_rollout_backward_workspace, nullptr, &sizes));
    return orthornn_rollout_backward(nullptr, &sizes, q.data(), given_lengths(), h_0.data(), outputs.data(),
                                     has_signs() ? signs.data() : nullptr, d_outputs.data(), d_h_last.data(),
                                     d_inputs.data(), d_h_0.data(), d_q.data(),
                                     sizes.activation == ORTHORNN_MODRELU ? d_modrelu_bias.data() : nullptr,
                                     workspace.data(), workspace.bytes());
  }
  /// <outputs, d_outputs> + <h_last, d_h_last>, whose gradients the backward computes.
  double loss() {
    require_status(forward());
    return inner_product(outputs, d_outputs) + inner_product(h_last, d_h_last);
  }
};

/// The same by the C++ interface.
template <class T>
void check_against_cpp(RolloutCase<T>& c) {
  const auto activation = static_cast<Activation>(c.sizes.activation);
  Transition<T> transition(Unconstrained{}, c.sizes.size);
  transition.prepare(c.q);
  RolloutCache<T> cache;
  // In place, and h_0 where the gradient of Q finds it.
  Tensor<T> states({c.sizes.length + 1, c.sizes.batch, c.sizes.size}), h_last(c.h_last.shape()),
      d_h_0(c.h_0.shape()), d_q(c.q.shape());
  const TensorView<T> outputs = states.view().slice(1, c.sizes.length);
  copy<T>(c.h_0, states.view()[0]);
  copy<T>(c.inputs, outputs);
  rollout_forward<T>(transition, activation, c.modrelu_bias, c.lengths,
                     {.h_0 = states.view()[0], .inputs = outputs, .outputs = outputs, .h_last = h_last},
                     cache);
  REQUIRE(std::ranges::equal(c.outputs, outputs));
  REQUIRE(same_bits(c.h_last, h_last));
  Tensor<T> g = c.d_outputs.copy();
  rollout_backward<T>(
      transition, activation, c.lengths,
      {.outputs = outputs, .d_outputs = g, .d_h_last = c.d_h_last, .d_inputs = g, .d_h_0 = d_h_0}, cache);
  REQUIRE(same_bits(c.d_inputs, g));
  REQUIRE(same_bits(c.d_h_0, d_h_0));
  transition.backward_of_rollout(columns_of(std::as_const(g)),
                                 columns_of(std::as_const(states).view().slice(0, c.sizes.length)), {}, {},
                                 d_q);
  // The sums of the first step and of the others are added in another order.
  const double error = relative_error(c.d_q, d_q);
  REQUIRE(error <= tolerance::rounding<T>(c.sizes.length * c.sizes.batch));
}

}  // namespace

TEMPLATE_TEST_CASE("Rollouts through the C interface have the bits of the C++ ones", "[c_api]", float,
                   double) {
  const std::array<Index, 3> sizes[] = {{1, 1, 1}, {5, 3, 7}, {4, 33, 64}, {2, 8, 130}};
  for (std::int32_t activation = ORTHORNN_TANH; activation <= ORTHORNN_IDENTITY; ++activation) {
    for (const auto& [length, batch, size] : sizes) {
      for (const bool ragged : {false, true}) {
        CAPTURE(activation, length, batch, size, ragged);
        RolloutCase<TestType> c(activation, length, batch, size, ragged);
        require_status(c.forward());
        require_status(c.backward());
        check_against_cpp(c);
      }
    }
  }
}

TEST_CASE("Gradients of a rollout through the C interface are those of finite differences",
          "[c_api][gradient]") {
  for (const std::int32_t activation : {ORTHORNN_TANH, ORTHORNN_MODRELU, ORTHORNN_ABS}) {
    CAPTURE(activation);
    RolloutCase<double> c(activation, 4, 3, 5, true);
    require_status(c.forward());
    require_status(c.backward());
    const auto check = [&](Tensor<double>& values, const Tensor<double>& found) {
      const Tensor<double> gradient = found.copy();
      const Tensor<double> expected = finite_differences(values.view(), [&] { return c.loss(); });
      for (Index i = 0; i < gradient.size(); ++i)
        CHECK(gradient.data()[i] == Approx(expected.data()[i]).epsilon(1e-7).margin(1e-8));
    };
    check(c.q, c.d_q);
    check(c.inputs, c.d_inputs);
    check(c.h_0, c.d_h_0);
    if (activation == ORTHORNN_MODRELU) check(c.modrelu_bias, c.d_modrelu_bias);
  }
}

TEST_CASE("A rollout through the C interface without steps, without sequences, and in place", "[c_api]") {
  RolloutCase<float> no_steps(ORTHORNN_TANH, 0, 3, 4, false);
  require_status(no_steps.forward());
  CHECK(same_bits(no_steps.h_last, no_steps.h_0));
  require_status(no_steps.backward());
  CHECK(same_bits(no_steps.d_h_0, no_steps.d_h_last));
  for (const float x : no_steps.d_q) CHECK(x == 0);

  RolloutCase<float> no_sequences(ORTHORNN_MODRELU, 3, 0, 4, false);
  require_status(no_sequences.forward());
  require_status(no_sequences.backward());
  for (const float x : no_sequences.d_q) CHECK(x == 0);
  for (const float x : no_sequences.d_modrelu_bias) CHECK(x == 0);

  // Outputs in the place of inputs, gradients in the place of those that arrive, and gradients of no output.
  RolloutCase<float> c(ORTHORNN_RELU, 5, 4, 8, true);
  require_status(c.forward());
  require_status(c.backward());
  Tensor<float> outputs = c.inputs.copy(), g = c.d_outputs.copy(), h_last(c.h_last.shape()),
                d_h_0(c.h_0.shape());
  std::int64_t bytes = 0;
  require_status(orthornn_rollout_backward_workspace(nullptr, &c.sizes, &bytes));
  Workspace workspace(bytes);
  require_status(orthornn_rollout_forward(nullptr, &c.sizes, c.q.data(), nullptr, c.lengths.data(),
                                          outputs.data(), c.h_0.data(), outputs.data(), h_last.data(),
                                          nullptr, workspace.data(), bytes));
  CHECK(same_bits(outputs, c.outputs));
  require_status(orthornn_rollout_backward(
      nullptr, &c.sizes, c.q.data(), c.lengths.data(), nullptr, outputs.data(), nullptr, g.data(),
      c.d_h_last.data(), g.data(), d_h_0.data(), nullptr, nullptr, workspace.data(), workspace.bytes()));
  CHECK(same_bits(g, c.d_inputs));
  require_status(orthornn_rollout_backward(nullptr, &c.sizes, c.q.data(), c.lengths.data(), nullptr,
                                           outputs.data(), nullptr, nullptr, nullptr, g.data(), d_h_0.data(),
                                           nullptr, nullptr, workspace.data(), workspace.bytes()));
  for (const float x : g) CHECK(x == 0);
}

TEST_CASE("A rollout through the C interface from no state starts from zeros", "[c_api]") {
  for (const Index length : {0, 1, 5}) {
    CAPTURE(length);
    RolloutCase<float> zeros(ORTHORNN_MODRELU, length, 4, 8, true),
        none(ORTHORNN_MODRELU, length, 4, 8, true);
    std::fill(zeros.h_0.begin(), zeros.h_0.end(), 0.0F);
    none.h_0 = Tensor<float>();
    for (RolloutCase<float>* c : {&zeros, &none}) {
      require_status(c->forward());
      require_status(c->backward());
    }
    CHECK(same_bits(none.outputs, zeros.outputs));
    CHECK(same_bits(none.h_last, zeros.h_last));
    CHECK(same_bits(none.d_inputs, zeros.d_inputs));
    CHECK(same_bits(none.d_h_0, zeros.d_h_0));
    CHECK(std::ranges::equal(none.d_q, zeros.d_q));  // but for the signs of zeros
  }
}

TEST_CASE("Bad arguments of rollouts are statuses that name the argument", "[c_api]") {
  RolloutCase<float> c(ORTHORNN_TANH, 3, 2, 4, true);
  constexpr auto bad = ORTHORNN_INVALID_ARGUMENT;
  const auto refuses = [&](auto member, auto value, const std::string& message) {
    orthornn_rollout changed = c.sizes;
    changed.*member = value;
    std::int64_t bytes = 0;
    require_error(orthornn_rollout_forward_workspace(nullptr, &changed, &bytes), bad, message);
    require_error(orthornn_rollout_backward_workspace(nullptr, &changed, &bytes), bad, message);
  };
  using Sizes = orthornn_rollout;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  refuses(&Sizes::dtype, ORTHORNN_BF16, "dtype is 2");
  refuses(&Sizes::activation, 5, "activation is 5, expected 0 to 4");
  refuses(&Sizes::precision, 3, "precision is 3");
  refuses(&Sizes::reserved, 1, "reserved is 1");
  refuses(&Sizes::length, std::int64_t{-1}, "length is -1");
  refuses(&Sizes::batch, std::int64_t{-1}, "batch is -1");
  refuses(&Sizes::size, std::int64_t{0}, "size is 0");
  refuses(&Sizes::length, most, "outputs of shape");
  refuses(&Sizes::batch, most, "outputs of shape");
  refuses(&Sizes::size, most, "rollout.size is 9223372036854775807, expected 1 to 134217727");
  std::int64_t bytes = 0;
  require_status(orthornn_rollout_forward_workspace(nullptr, &c.sizes, &bytes));
  Workspace workspace(bytes);
  const auto forward = [&](const void* q, const void* bias, void* outputs, void* h_last, std::int8_t* signs,
                           std::int64_t given) {
    return orthornn_rollout_forward(nullptr, &c.sizes, q, bias, c.lengths.data(), c.inputs.data(),
                                    c.h_0.data(), outputs, h_last, signs, workspace.data(), given);
  };
  float* const q = c.q.data();
  require_error(forward(nullptr, nullptr, c.outputs.data(), c.h_last.data(), nullptr, bytes), bad,
                "q is NULL");
  require_error(forward(q, nullptr, nullptr, c.h_last.data(), nullptr, bytes), bad, "outputs is NULL");
  require_error(forward(q, nullptr, c.outputs.data(), nullptr, nullptr, bytes), bad, "h_last is NULL");
  require_error(forward(q, nullptr, c.outputs.data(), c.h_last.data(), nullptr, 0), bad,
                "expected " + std::to_string(bytes));
  c.sizes.activation = ORTHORNN_MODRELU;
  require_error(forward(q, nullptr, c.outputs.data(), c.h_last.data(), nullptr, bytes), bad,
                "modrelu_bias is NULL");
  c.sizes.activation = ORTHORNN_ABS;
  require_error(forward(q, nullptr, c.outputs.data(), c.h_last.data(), nullptr, bytes), bad, "signs is NULL");
  c.lengths(1) = 4;
  require_error(forward(q, nullptr, c.outputs.data(), c.h_last.data(), c.signs.data(), bytes),
                ORTHORNN_INVALID_VALUE, "lengths[1] is 4, expected 0 to 3");
  c.lengths(1) = -1;
  require_error(c.backward(), ORTHORNN_INVALID_VALUE, "lengths[1] is -1");
}

TEST_CASE("Two threads roll out at once", "[c_api]") {
  RolloutCase<float> first(ORTHORNN_TANH, 20, 8, 32, false), second(ORTHORNN_TANH, 20, 8, 32, false),
      alone(ORTHORNN_TANH, 20, 8, 32, false);
  require_status(alone.forward());
  std::thread other([&] {
    std::int64_t bytes = 0;
    orthornn_rollout_forward_workspace(nullptr, &second.sizes, &bytes);
    std::vector<char> memory(static_cast<std::size_t>(bytes));
    for (int i = 0; i < 50; ++i) {
      orthornn_rollout_forward(nullptr, &second.sizes, second.q.data(), nullptr, nullptr,
                               second.inputs.data(), second.h_0.data(), second.outputs.data(),
                               second.h_last.data(), nullptr, memory.data(), bytes);
    }
  });
  for (int i = 0; i < 50; ++i) require_status(first.forward());
  other.join();
  CHECK(same_bits(first.outputs, alone.outputs));
  CHECK(same_bits(second.outputs, alone.outputs));
}

}  // namespace orthornn::testing
