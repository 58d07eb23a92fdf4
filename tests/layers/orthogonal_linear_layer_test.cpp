#include "orthornn/layers/orthogonal_linear_layer.hpp"

#include <Eigen/LU>
#include <cmath>
#include <initializer_list>

#include "layers/map_cases.hpp"
#include "orthornn/core/error.hpp"
#include "support/check_says.hpp"
#include "support/eigen_matrix.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {
namespace {

using LinearMapCase = MapCase<OrthogonalLinear>;

struct LinearSizes {
  Index outputs, inputs;
};
constexpr LinearSizes linear_sizes[] = {{1, 1}, {1, 6},   {6, 1},   {5, 3},  {3, 5},
                                        {4, 4}, {33, 33}, {40, 17}, {17, 40}};

/// Calls what(options, inputs) for every kind of point and all sizes.
template <class What>
void for_all_linear_maps(const What& what) {
  for (const auto& [name, kind] : Names<StiefelKind>::list) {
    for (const auto& [n, k] : linear_sizes) {
      CAPTURE(name, n, k);
      what(OrthogonalLinear{.outputs = n, .matrix = kind}, k);
    }
  }
}

auto linear_map_of(const OrthogonalLinear& options, Index inputs) {
  return [options, inputs](ParameterSet<double>& parameters) {
    return std::make_unique<OrthogonalLinearLayer<double>>(parameters, "layer", options, inputs);
  };
}

}  // namespace

TEST_CASE("OrthogonalLinear keeps distances, or enlarges none where it has fewer outputs", "[layers]") {
  for_all_linear_maps([](const OrthogonalLinear& options, Index k) {
    LinearMapCase c(options, k);
    const Index n = options.outputs;
    const double rounding = tolerance::rounding<double>(n + k);
    const Tensor<double> a = normal_tensor<double>({3, 5, k}, 11), b = normal_tensor<double>({3, 5, k}, 12);
    const std::vector<double> before = norms_of(entrywise_difference(a, b)),
                              after = norms_of(entrywise_difference(c.forward(a), c.forward(b)));
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(after[i] <= before[i] * (1 + rounding));
      if (n >= k) CHECK(after[i] >= before[i] * (1 - rounding));
    }
    // For N <= K the transpose keeps lengths, so the largest singular value is 1.
    const Tensor<double> d = normal_tensor<double>({3, 5, n}, 13);
    const std::vector<double> arriving = norms_of(d), leaving = norms_of(c.transposed(d));
    for (std::size_t i = 0; i < arriving.size(); ++i) {
      CHECK(leaving[i] <= arriving[i] * (1 + rounding));
      if (n <= k) CHECK(leaving[i] >= arriving[i] * (1 - rounding));
    }
    CHECK(*c.layer.orthogonality_error() <= rounding);
  });
}

TEST_CASE("OrthogonalLinear multiplies by the point or its transpose and adds the bias", "[layers]") {
  for_all_linear_maps([](const OrthogonalLinear& options, Index k) {
    const Index n = options.outputs, rows = std::max(n, k), cols = std::min(n, k);
    const Parameter parameter = stiefel_parameter(options.matrix, rows, cols);
    for (const bool symbols : {false, true}) {
      CAPTURE(symbols);
      LayerCase<double> c(linear_map_of(options, k), 3, 4, symbols);
      c.forward();
      const auto point = make_stiefel_point<double>(options.matrix, rows, cols);
      const Index place = c.parameters.find("layer/" + parameter.name);
      CHECK(c.parameters.list()[static_cast<std::size_t>(place)].kind == parameter.kind);
      point->prepare(c.parameters.value(place));
      Tensor<double> expected(c.y.shape());
      for (Index t = 0; t < 3; ++t) {
        for (Index b = 0; b < 4; ++b) {
          for (Index i = 0; i < n; ++i) {
            double sum = c.parameters.value(c.parameters.find("layer/bias"))(i);
            for (Index j = 0; j < k; ++j) {
              const double x = symbols ? (c.symbols(t, b) == j ? 1.0 : 0.0) : c.x(t, b, j);
              sum += (n >= k ? point->omega()(i, j) : point->omega()(j, i)) * x;
            }
            expected(t, b, i) = sum;
          }
        }
      }
      CHECK(relative_error(c.y, expected) <= tolerance::rounding<double>(n + k));
    }
  });
}

TEST_CASE("gradients of OrthogonalLinear are those of finite differences", "[layers][gradient]") {
  for_all_linear_maps([](const OrthogonalLinear& options, Index k) {
    if (std::max(options.outputs, k) > 6) return;  // a difference for each parameter
    for (const bool symbols : {false, true}) {
      CAPTURE(symbols);
      LayerCase<double> c(linear_map_of(options, k), 3, 4, symbols);
      c.set_lengths({3, 0, 2, 1});
      check_gradients(c);
    }
  });
}

TEST_CASE("the inverse of OrthogonalLinear undoes it, and its log-determinant is 0", "[layers]") {
  for (const auto& [name, kind] : Names<StiefelKind>::list) {
    for (const Index size : {1, 2, 5, 33}) {
      CAPTURE(name, size);
      LinearMapCase c({.matrix = kind}, size);  // as many outputs as inputs
      REQUIRE(c.layer.output_size() == size);
      const Tensor<double> x = normal_tensor<double>({3, 4, size}, 3);
      const Tensor<double> y = c.forward(x);
      Tensor<double> back(x.shape());
      c.layer.inverse(y, back);
      CHECK(relative_error(back, x) <= tolerance::rounding<double>(4 * size));
      CHECK(relative_error(c.forward(back), y) <= tolerance::rounding<double>(4 * size));
      Tensor<double> one(Shape{size});
      c.layer.inverse(std::as_const(y).view()[1][2], one);
      CHECK(relative_error(one, std::as_const(x).view()[1][2]) <= tolerance::rounding<double>(4 * size));

      const double determinant = matrix_of(c.matrix()).determinant();
      CHECK(std::abs(c.layer.log_determinant() - std::log(std::abs(determinant))) <=
            tolerance::rounding<double>(size * size));
      // A product of as many reflections as there are rows, or a start that is drawn as one.
      CHECK((determinant > 0) == (size % 2 == 0));
    }
  }
}

TEST_CASE("OrthogonalLinear has the same bits for every number of threads", "[layers]") {
  for (const Index outputs : {20, 50}) {
    check_threads(OrthogonalLinear{.outputs = outputs}, 33, 5, 7);
  }
}

TEST_CASE("OrthogonalLinear refuses sizes that cannot be, and inverses that are none", "[layers][errors]") {
  const auto refused = [](const OrthogonalLinear& options, Index inputs,
                          std::initializer_list<std::string> words) {
    check_refused_map(options, inputs, words);
  };
  refused({}, 0, {"orthogonal_linear", "0 inputs", "at least 1"});
  refused({.outputs = 3}, -1, {"-1 inputs"});
  refused({.outputs = -2}, 3, {"orthogonal_linear", "outputs", "-2"});
  ParameterSet<float> huge;
  CHECK_THROWS_AS(
      OrthogonalLinearLayer<float>::add_parameters(huge, "a", {.outputs = Index{1} << 40}, Index{1} << 40),
      ShapeError);

  for (const Index outputs : {2, 4}) {
    LinearMapCase c({.outputs = outputs}, 3);
    Tensor<double> y({2, outputs}), x({2, 3});
    check_says<ValueError>([&] { c.layer.inverse(y, x); }, {"orthogonal_linear", "3 inputs", "as many"});
    check_says<ValueError>([&] { static_cast<void>(c.layer.log_determinant()); }, {"determinant", "as many"});
  }
  LinearMapCase c({}, 3);
  Tensor<double> x({2, 3}), wide({2, 4});
  CHECK_THROWS_AS(c.layer.inverse(wide, x), ShapeError);
  CHECK_THROWS_AS(c.layer.inverse(x, wide), ShapeError);
  ParameterSet<double> parameters;
  OrthogonalLinearLayer<double> raw(parameters, "layer", {}, 3);
  parameters.allocate(Device::cpu());
  Tensor<double> y({2, 3});
  check_says<ValueError>([&] { raw.inverse(y, x); }, {"before prepare()"});
}

}  // namespace orthornn::testing
