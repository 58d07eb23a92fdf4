// The map of the inputs of a recurrence through the C interface, against its formulas.

#include <cmath>
#include <limits>

#include "c_api/affine_case.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

/// The same by loops.
AffineCalls<double> by_formulas(const std::array<Index, 4>& shape) {
  AffineCalls<double> c(ORTHORNN_PRECISION_FP32, shape, nullptr);
  const auto [length, batch, inputs, outputs] = shape;
  for (Index t = 0; t < length; ++t) {
    for (Index s = 0; s < batch; ++s) {
      for (Index n = 0; n < outputs; ++n) {
        const double g = c.d_y(t, s, n);
        c.y(t, s, n) = c.b(n);
        c.d_b(n) += g;
        c.d_modrelu_bias(n) += c.states(t, s, n) < 0 ? -g : g;
        for (Index k = 0; k < inputs; ++k) {
          c.y(t, s, n) += c.w(n, k) * c.x(t, s, k);
          c.d_w(n, k) += g * c.x(t, s, k);
          c.d_x(t, s, k) += c.w(n, k) * g;
        }
      }
    }
  }
  return c;
}

}  // namespace

TEMPLATE_TEST_CASE("The map of inputs through the C interface has the values of its formulas", "[c_api]",
                   float, double) {
  for (const std::array<Index, 4>& shape : affine_shapes) {
    CAPTURE(shape[0], shape[1], shape[2], shape[3]);
    AffineCalls<double> expected = by_formulas(shape);
    AffineCalls<TestType> found(ORTHORNN_PRECISION_FP32, shape, nullptr);
    found.run();
    // Sums of K, N, or T B products.
    check_near(found, expected, tolerance::rounding<TestType>(std::max(shape[0] * shape[1], shape[3])));
  }
}

TEST_CASE("The map of inputs without a bias, without gradients, and without steps", "[c_api]") {
  const std::array<Index, 4> shape{4, 3, 2, 5};
  AffineCalls<double> c(ORTHORNN_PRECISION_FP32, shape, nullptr),
      whole(ORTHORNN_PRECISION_FP32, shape, nullptr);
  whole.run();
  require_status(c.forward(nullptr));
  for (Index i = 0; i < c.y.size(); ++i)
    CHECK(c.y.data()[i] + c.b(i % 5) == Approx(whole.y.data()[i]).margin(1e-14));
  require_status(c.backward(nullptr, nullptr, nullptr));
  CHECK(same_bits(c.d_w, whole.d_w));
  for (const double x : c.d_x) CHECK(x == 0);
  require_status(c.backward(nullptr, c.d_modrelu_bias.data(), nullptr));
  CHECK(same_bits(c.d_modrelu_bias, whole.d_modrelu_bias));
}

TEST_CASE("The map of inputs without steps or sequences has gradients of zeros", "[c_api]") {
  for (const std::array<Index, 4>& shape : empty_affine_shapes) {
    for (const bool has_bias : {true, false}) check_empty_affine(shape, nullptr, has_bias);
  }
}

TEST_CASE("Bad arguments of the map of inputs are statuses that name the argument", "[c_api]") {
  AffineCalls<float> c(ORTHORNN_PRECISION_FP32, {2, 2, 3, 4}, nullptr);
  constexpr auto bad = ORTHORNN_INVALID_ARGUMENT;
  const auto refuses = [&](auto member, auto value, const std::string& message) {
    orthornn_affine changed = c.sizes;
    changed.*member = value;
    std::int64_t bytes = 0;
    require_error(orthornn_affine_forward_workspace(nullptr, &changed, &bytes), bad, message);
    require_error(orthornn_affine_backward_workspace(nullptr, &changed, &bytes), bad, message);
  };
  using Sizes = orthornn_affine;
  refuses(&Sizes::dtype, 5, "dtype is 5");
  refuses(&Sizes::precision, 3, "precision is 3");
  refuses(&Sizes::length, std::int64_t{-1}, "length is -1");
  refuses(&Sizes::batch, std::numeric_limits<std::int64_t>::max(), "x of shape");
  refuses(&Sizes::inputs, std::int64_t{0}, "inputs is 0");
  refuses(&Sizes::outputs, std::int64_t{0}, "outputs is 0");
  const std::int64_t bytes = c.for_forward->bytes();
  void* const memory = c.for_forward->data();
  require_error(
      orthornn_affine_forward(nullptr, &c.sizes, nullptr, nullptr, c.x.data(), c.y.data(), memory, bytes),
      bad, "w is NULL");
  require_error(
      orthornn_affine_forward(nullptr, &c.sizes, c.w.data(), nullptr, nullptr, c.y.data(), memory, bytes),
      bad, "x is NULL");
  require_error(
      orthornn_affine_forward(nullptr, &c.sizes, c.w.data(), nullptr, c.x.data(), c.y.data(), memory, 0), bad,
      "expected " + std::to_string(bytes));
  require_error(orthornn_affine_backward(nullptr, &c.sizes, c.w.data(), c.x.data(), c.d_y.data(), nullptr,
                                         c.d_w.data(), nullptr, c.d_modrelu_bias.data(), nullptr,
                                         c.for_backward->data(), c.for_backward->bytes()),
                bad, "states is NULL");
}

}  // namespace orthornn::testing
