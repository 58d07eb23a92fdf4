// DeltaProduct layers with each of their options, against central differences in double, step by step, cut in
// two, and against formulas of their own.

#include <Eigen/Core>
#include <cmath>
#include <initializer_list>

#include "layers/delta_product_cells.hpp"
#include "orthornn/core/error.hpp"
#include "support/check_says.hpp"

namespace orthornn::testing {
TEST_CASE("gradients of DeltaProduct layers are those of finite differences",
          "[layers][delta][gradient][long]") {
  for (const auto& [name, cell] : delta_product_cells()) {
    CAPTURE(name);
    for (const bool with_lengths : {false, true}) {
      CAPTURE(with_lengths);
      LayerCase<double> c(delta_product_maker<double>(cell), 4, 3);
      if (with_lengths) c.set_lengths({4, 0, 2});
      check_gradients(c);
    }
  }
}

TEST_CASE("gradients of DeltaProduct layers in chunks are those of finite differences",
          "[layers][delta][gradient]") {
  DeltaProductCell cell = delta_product_cells().back().second;
  cell.householder = 4;
  LayerCase<double> c(delta_product_maker<double>(cell), 18, 2);
  REQUIRE(c.layer->describe(18, 2).form == "chunked");
  c.set_lengths({18, 11});
  check_gradients(c);
}

TEST_CASE("a DeltaProduct layer may run twice before its backwards", "[layers][delta][gradient]") {
  for (const auto& [name, cell] : delta_product_cells()) {
    CAPTURE(name);
    LayerCase<double> first(delta_product_maker<double>(cell), 4, 3),
        second(delta_product_maker<double>(cell), 6, 2, false, Device::cpu(), 0.4, 9);
    second.set_lengths({6, 3});
    check_two_passes(first, second);
  }
}

TEMPLATE_TEST_CASE("one step of a DeltaProduct layer at a time gives the bits of the whole",
                   "[layers][delta]", float, double) {
  for (const auto& [name, cell] : delta_product_cells()) {
    CAPTURE(name);
    LayerCase<TestType> c(delta_product_maker<TestType>(cell), 7, 3);
    check_generation(c);
  }
}

TEST_CASE("chunks and steps of a DeltaProduct layer give the same numbers", "[layers][delta]") {
  for (const auto& [name, cell] : delta_product_cells()) {
    CAPTURE(name);
    if (cell.factor == DeltaFactorKind::rwkv7) continue;  // without chunks
    LayerCase<double> c(delta_product_maker<double>(cell), 70, 2);
    REQUIRE(c.layer->describe(70, 2).form == "chunked");
    c.forward();
    std::vector<Tensor<double>> state;
    for (const Tensor<double>& s : c.start) state.push_back(s.copy());
    Tensor<double> found(c.y.shape());
    for (Index t = 0; t < c.length; ++t) {
      c.saved.clear();
      copy<double>(c.layer->forward({.vectors = std::as_const(c.x).view().slice(t, 1)}, const_views_of(state),
                                    views_of(state), c.saved),
                   found.view().slice(t, 1));
    }
    const double bound = tolerance::rounding<double>(70 * 4);
    CHECK(relative_error(found, c.y) <= bound);
    for (std::size_t i = 0; i < state.size(); ++i) CHECK(relative_error(state[i], c.last[i]) <= bound);
  }
}

TEST_CASE("padding reaches neither outputs nor states nor gradients", "[layers][delta]") {
  for (const auto& [name, cell] : delta_product_cells()) {
    CAPTURE(name);
    LayerCase<double> c(delta_product_maker<double>(cell), 6, 3);
    c.set_lengths({6, 2, 0});
    c.forward();
    c.backward();
    const Tensor<double> y = c.y.copy(), dx = c.dx.copy(), d = c.parameters.gradients().copy();
    std::vector<Tensor<double>> last;
    for (const Tensor<double>& s : c.last) last.push_back(s.copy());
    const auto for_padding = [&](const auto& body) {
      for (Index t = 0; t < 6; ++t) {
        for (Index b = 0; b < 3; ++b) {
          if (t >= c.lengths(b)) body(t, b);
        }
      }
    };
    for_padding([&](Index t, Index b) {
      for (Index i = 0; i < delta_product_inputs; ++i) {
        CHECK(dx(t, b, i) == 0);
        c.x(t, b, i) += 3;
      }
      for (Index i = 0; i < cell.hidden_size; ++i) {
        CHECK(y(t, b, i) == 0);
        c.dy(t, b, i) += 3;
      }
    });
    c.forward();
    c.backward();
    CHECK(equal(c.y, y));
    CHECK(equal(c.dx, dx));
    CHECK(equal(c.parameters.gradients(), d));
    for (std::size_t i = 0; i < last.size(); ++i) CHECK(equal(c.last[i], last[i]));
  }
}

namespace {

/// Makes all parameters 0, and returns what gives one of them other values.
auto setter_of_zeros(ParameterSet<double>& parameters) {
  for (double& x : parameters.values()) x = 0;
  return [&parameters](const char* name, const std::vector<double>& values) {
    const TensorView<double> to = parameters.value(parameters.find(std::string("layer/") + name));
    REQUIRE(to.size() == static_cast<Index>(values.size()));
    std::copy(values.begin(), values.end(), to.begin());
  };
}

}  // namespace

/// With weights 0 everything follows from the bias, and every step is the same.
TEST_CASE("a DeltaProduct layer computes what its formula says", "[layers][delta]") {
  const DeltaProductCell cell{.hidden_size = 1,
                              .heads = 1,
                              .key_size = 2,
                              .value_size = 1,
                              .householder = 1,
                              .beta_limit = 1.5,
                              .beta_offset = 0.6,
                              .state_decay = true,
                              .norm_epsilon = 0.1,
                              .output_gate = true};
  LayerCase<double> c(delta_product_maker<double>(cell), 3, 1);
  const auto set = setter_of_zeros(c.parameters);
  set("input_bias", {1, 2, -1, 1, 0.5, 0.7, 0.3, -0.2});  // q, k, v, gate, beta, decay
  set("decay_rates", {0.4});
  set("norm_gain", {1.3});
  set("output_weights", {2});
  c.forward();
  const auto sigma = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto silu = [&](double x) { return x * sigma(x); };
  const auto unit = [&](double a, double b) {
    const double norm = std::hypot(silu(a), silu(b));
    return std::pair(silu(a) / norm, silu(b) / norm);
  };
  const auto [q0, q1] = unit(1, 2);
  const auto [k0, k1] = unit(-1, 1);
  const double beta = 1.5 * sigma(0.3 + 0.6), decay = std::exp(-std::exp(0.4) * std::log1p(std::exp(-0.2)));
  double s0 = c.start[0](0, 0, 0, 0), s1 = c.start[0](0, 0, 1, 0);
  for (Index t = 0; t < 3; ++t) {
    s0 *= decay;
    s1 *= decay;
    const double error = silu(0.5) - (s0 * k0 + s1 * k1);
    s0 += beta * k0 * error;
    s1 += beta * k1 * error;
    const double o = s0 * q0 + s1 * q1;
    const double y = 2 * 1.3 * o / std::sqrt(o * o + 0.1) * silu(0.7);
    CHECK(std::abs(c.y(t, 0, 0) - y) <= 1e-14);
  }
  CHECK(std::abs(c.last[0](0, 0, 0, 0) - s0) <= 1e-14);
}

/// Each step is S <- F_2 F_1 diag(w) S + what the values add, F = I - beta k (k * a)^T, as matrices.
TEST_CASE("a layer with factors of RWKV-7 computes what its formula says", "[layers][delta]") {
  const DeltaProductCell cell{.hidden_size = 1,
                              .heads = 1,
                              .key_size = 2,
                              .value_size = 1,
                              .householder = 2,
                              .factor = DeltaFactorKind::rwkv7,
                              .state_decay = true,
                              .readout_norm = ReadoutNorm::none};
  LayerCase<double> c(delta_product_maker<double>(cell), 3, 1);
  CHECK(c.parameters.list().size() == 3);  // no decay rates
  const auto set = setter_of_zeros(c.parameters);
  const std::vector<double> p = {1, 2, -1, 1, 0.4, 3, 0.5, -2, 0.3, 1.7, -0.2, 0.9, 0.1, 2.5, -1.1, 0.6};
  set("input_bias", p);  // q, both k, both v, both beta, decays, both a
  set("output_weights", {1});
  c.forward();
  const auto sigma = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto silu = [&](double x) { return x * sigma(x); };
  using Vector = Eigen::Vector2d;
  const auto unit = [&](std::size_t at) -> Vector {
    return Vector(silu(p[at]), silu(p[at + 1])).normalized();
  };
  Vector s(c.start[0](0, 0, 0, 0), c.start[0](0, 0, 1, 0));
  for (Index t = 0; t < 3; ++t) {
    for (int i = 0; i < 2; ++i)
      s[i] *= std::exp(-std::exp(-0.5) * sigma(p[10 + static_cast<std::size_t>(i)]));
    for (std::size_t j = 0; j < 2; ++j) {
      const Vector k = unit(2 + 2 * j), a(sigma(p[12 + 2 * j]), sigma(p[13 + 2 * j]));
      const double beta = 2 * sigma(p[8 + j]);
      const Eigen::Matrix2d factor = Eigen::Matrix2d::Identity() - beta * k * k.cwiseProduct(a).transpose();
      s = (factor * s + beta * silu(p[6 + j]) * k).eval();
    }
    CHECK(std::abs(c.y(t, 0, 0) - unit(0).dot(s)) <= 1e-14);
  }
}

TEST_CASE("decays begin where they leave a thousandth to a tenth of a state", "[layers][delta]") {
  for (const DeltaFactorKind factor : {DeltaFactorKind::householder, DeltaFactorKind::rwkv7}) {
    const DeltaProductCell cell{
        .hidden_size = 1, .heads = 3, .key_size = 7, .factor = factor, .state_decay = true};
    ParameterSet<double> parameters;
    const auto layer = make_layer<double>(parameters, "layer", cell, 4);
    parameters.allocate(Device::cpu());
    layer->initialize(1);
    const TensorView<double> bias = parameters.value(parameters.find("layer/input_bias"));
    const bool of_rows = factor == DeltaFactorKind::rwkv7;
    const Index count = of_rows ? 3 * 7 : 3, end = bias.size() - (of_rows ? 2 * 3 * 7 : 0);
    for (Index i = end - count; i < end; ++i) {
      const double amount =
          of_rows ? std::exp(-0.5) / (1 + std::exp(-bias(i))) : std::log1p(std::exp(bias(i)));
      CHECK((amount >= 1e-3 && amount <= 0.1));
    }
    for (Index i = end; i < bias.size(); ++i) CHECK(bias(i) == 0);
  }
}

TEST_CASE("large step sizes reach their limit", "[layers][delta]") {
  const bool by_offset = GENERATE(false, true);
  // Where beta is 2, not nearly 2, a reflection of one number is exact; sums in chunks would round.
  const DeltaProductCell cell{.hidden_size = 1,
                              .heads = 1,
                              .key_size = 1,
                              .value_size = 1,
                              .householder = 1,
                              .beta_offset = by_offset ? 20.0 : 0.0,
                              .readout_norm = ReadoutNorm::none};
  LayerCase<float> c(delta_product_maker<float>(cell), 31, 1);
  for (float& x : c.parameters.values()) x = 0;
  const TensorView<float> bias = c.parameters.value(c.parameters.find("layer/input_bias"));
  bias(0) = bias(1) = 1;
  bias(3) = by_offset ? -2.5F : 40.0F;
  c.start[0](0, 0, 0, 0) = 0.7F;
  c.forward();
  CHECK(c.last[0](0, 0, 0, 0) == -0.7F);
}

TEST_CASE("factors of RWKV-7 have no chunks", "[layers][delta]") {
  DeltaProductCell cell = delta_product_cells().back().second;
  cell.factor = DeltaFactorKind::rwkv7;
  LayerCase<double> c(delta_product_maker<double>(cell), 40, 2);
  CHECK(c.layer->describe(40, 2).form == "recurrent");
  c.set_lengths({40, 11});
  check_gradients(c);
}

TEST_CASE("DeltaProduct layers that cannot be are refused", "[layers][delta][errors]") {
  const auto refused = [](const LayerOptions& options, std::initializer_list<std::string> words) {
    ParameterSet<float> parameters;
    check_says<Error>([&] { make_layer(parameters, "layer", options, 4); }, words);
    CHECK(parameters.list().empty());
  };
  constexpr Index huge = Index{1} << 40;
  refused(DeltaProductCell{.heads = 0}, {"deltaproduct", "heads", "0"});
  refused(DeltaProductCell{.householder = 0}, {"deltaproduct", "householder"});
  refused(DeltaProductCell{.beta_limit = 2.5}, {"deltaproduct", "beta_limit", "2.5"});
  refused(DeltaProductCell{.beta_limit = 0}, {"deltaproduct", "beta_limit"});
  refused(DeltaProductCell{.convolution = -1}, {"deltaproduct", "convolution"});
  refused(DeltaProductCell{.norm_epsilon = 0}, {"deltaproduct", "norm_epsilon"});
  refused(DeltaProductCell{.heads = huge, .key_size = huge}, {"1099511627776"});
  refused(DeltaProductCell{.householder = std::numeric_limits<Index>::max()}, {"9223372036854775807"});
  refused(DeltaProductCell{.hidden_size = huge, .heads = huge}, {"1099511627776"});
  refused(GatedMlp{.mlp_size = -1}, {"gated_mlp", "mlp_size"});
  refused(GatedMlp{.mlp_size = std::numeric_limits<Index>::max()}, {"9223372036854775807"});
}

TEST_CASE("gradients of a gated MLP are those of finite differences", "[layers][gradient]") {
  for (const Index size : {0, 5}) {
    LayerCase<double> c(delta_product_maker<double>(GatedMlp{size}), 2, 3);
    check_gradients(c);
  }
}

TEST_CASE("a gated MLP has 8/3 of its inputs within", "[layers]") {
  ParameterSet<float> parameters;
  make_layer(parameters, "layer", GatedMlp{}, 128);
  CHECK(parameters.list()[0].shape == Shape{2 * 344, 128});
  CHECK(parameters.list()[1].shape == Shape{128, 344});
}

}  // namespace orthornn::testing
