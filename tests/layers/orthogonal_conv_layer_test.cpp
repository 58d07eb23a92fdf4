#include "orthornn/layers/orthogonal_conv_layer.hpp"

#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "layers/direct_convolution.hpp"
#include "layers/map_cases.hpp"
#include "orthornn/core/error.hpp"
#include "support/check_says.hpp"
#include "support/eigen_matrix.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {
namespace {

using ConvMapCase = MapCase<OrthogonalConv>;

constexpr Index map_height = 3, map_width = 4, map_pixels = map_height * map_width;

/// Calls what(options, C) for every kind of point and matrices M with more rows, with more
/// columns and with as many of both, one of a kernel larger than the frame.
template <class What>
void for_all_convolutions(const What& what) {
  struct Sizes {
    Index q, c, f;
  };
  for (const auto& [name, kind] : Names<StiefelKind>::list) {
    for (const auto& [q, c, f] :
         {Sizes{1, 2, 2}, Sizes{1, 2, 3}, Sizes{1, 3, 2}, Sizes{3, 1, 2}, Sizes{3, 1, 11}, Sizes{5, 2, 2}}) {
      CAPTURE(name, q, c, f);
      what(
          OrthogonalConv{
              .channels = f, .height = map_height, .width = map_width, .kernel_size = q, .kernel = kind},
          c);
    }
  }
}

auto convolution_of(const OrthogonalConv& options, Index channels) {
  return [options, channels](ParameterSet<double>& parameters) {
    return std::make_unique<OrthogonalConvLayer<double>>(parameters, "layer", options,
                                                         options.height * options.width * channels);
  };
}

}  // namespace

TEST_CASE("OrthogonalConv enlarges no distance, and keeps those that it can", "[layers]") {
  for_all_convolutions([](const OrthogonalConv& options, Index channels) {
    ConvMapCase c(options, map_pixels * channels);
    const Index q = options.kernel_size, f = options.channels;
    const double rounding = tolerance::rounding<double>(q * q * channels + f);
    const Tensor<double> a = normal_tensor<double>({3, 5, map_pixels * channels}, 11),
                         b = normal_tensor<double>({3, 5, map_pixels * channels}, 12);
    const std::vector<double> before = norms_of(entrywise_difference(a, b)),
                              after = norms_of(entrywise_difference(c.forward(a), c.forward(b)));
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(after[i] <= before[i] * (1 + rounding));
      if (q == 1 && channels <= f) CHECK(after[i] >= before[i] * (1 - rounding));
    }
    const Tensor<double> d = normal_tensor<double>({3, 5, map_pixels * f}, 13);
    const std::vector<double> arriving = norms_of(d), leaving = norms_of(c.transposed(d));
    for (std::size_t i = 0; i < arriving.size(); ++i) {
      CHECK(leaving[i] <= arriving[i] * (1 + rounding));
      if (q == 1 && channels >= f) CHECK(leaving[i] >= arriving[i] * (1 - rounding));
    }
    CHECK(*c.layer.orthogonality_error() <= rounding);
  });
}

TEST_CASE("no distance at all is enlarged by OrthogonalConv", "[layers]") {
  for_all_convolutions([](const OrthogonalConv& options, Index channels) {
    ConvMapCase c(options, map_pixels * channels);
    const Index numbers = map_pixels * std::max(channels, options.channels);
    // The power method comes near to the largest singular value, from below.
    Tensor<double> x = normal_tensor<double>({1, 1, map_pixels * channels}, 1);
    const Tensor<double> matrix = c.matrix();
    double norm = 0;
    for (int i = 0; i < 100; ++i) {
      const double length = frobenius_norm(x);
      for (double& number : x) number /= length;
      Tensor<double> y({1, 1, map_pixels * options.channels});
      for (Index row = 0; row < y.size(); ++row) {
        for (Index k = 0; k < x.size(); ++k) y(0, 0, row) += matrix(row, k) * x(0, 0, k);
      }
      norm = frobenius_norm(y);
      x = c.transposed(y);
    }
    CHECK(norm <= 1 + tolerance::rounding<double>(numbers));
  });
}

TEST_CASE("OrthogonalConv is the convolution that is summed one by one", "[layers]") {
  for_all_convolutions([](const OrthogonalConv& options, Index channels) {
    const Index q = options.kernel_size, f = options.channels, rows = q * q * channels;
    LayerCase<double> c(convolution_of(options, channels), 3, 2);
    c.forward();
    const Parameter parameter = stiefel_parameter(options.kernel, std::max(rows, f), std::min(rows, f));
    const auto point = make_stiefel_point<double>(options.kernel, std::max(rows, f), std::min(rows, f));
    const Index place = c.parameters.find("layer/" + parameter.name);
    CHECK(c.parameters.list()[static_cast<std::size_t>(place)].kind == parameter.kind);
    point->prepare(c.parameters.value(place));
    Tensor<double> kernel({rows, f});
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < f; ++j) kernel(i, j) = f <= rows ? point->omega()(i, j) : point->omega()(j, i);
    }
    Tensor<double> expected(c.y.shape());
    for (Index t = 0; t < 3; ++t) {
      for (Index b = 0; b < 2; ++b) {
        const TensorView<double> y = expected.view()[t][b];
        for (Index i = 0; i < y.size(); ++i)
          y.data()[i] = c.parameters.value(c.parameters.find("layer/bias"))(i % f);
        convolve_directly(std::as_const(kernel).view().reshaped({q, q, channels, f}),
                          std::as_const(c.x).view()[t][b].reshaped({map_height, map_width, channels}),
                          1 / static_cast<double>(q), y.reshaped({map_height, map_width, f}));
      }
    }
    CHECK(relative_error(c.y, expected) <= tolerance::rounding<double>(rows + f));
  });
}

TEST_CASE("gradients of OrthogonalConv are those of finite differences", "[layers][gradient]") {
  for_all_convolutions([](const OrthogonalConv& options, Index channels) {
    LayerCase<double> c(convolution_of(options, channels), 2, 3);
    c.set_lengths({2, 0, 1});
    check_gradients(c);
  });
}

TEST_CASE("the inverse of OrthogonalConv undoes it, and its log-determinant is 0", "[layers]") {
  for (const auto& [name, kind] : Names<StiefelKind>::list) {
    for (const Index channels : {1, 2, 5}) {
      CAPTURE(name, channels);
      const OrthogonalConv options{
          .height = map_height, .width = map_width, .kernel_size = 1, .kernel = kind};
      ConvMapCase c(options, map_pixels * channels);  // as many channels as it reads
      REQUIRE(c.layer.output_size() == map_pixels * channels);
      const Tensor<double> x = normal_tensor<double>({3, 4, map_pixels * channels}, 3);
      const Tensor<double> y = c.forward(x);
      Tensor<double> back(x.shape());
      c.layer.inverse(y, back);
      CHECK(relative_error(back, x) <= tolerance::rounding<double>(4 * channels));
      CHECK(relative_error(c.forward(back), y) <= tolerance::rounding<double>(4 * channels));
      const double determinant = matrix_of(c.matrix()).determinant();
      CHECK(std::abs(c.layer.log_determinant() - std::log(std::abs(determinant))) <=
            tolerance::rounding<double>(map_pixels * channels));
    }
  }
}

TEST_CASE("OrthogonalConv has the same bits for every number of threads", "[layers]") {
  for (const Index channels : {4, 30}) {
    check_threads(OrthogonalConv{.channels = channels, .height = 9}, 144, 3, 5);
  }
}

TEST_CASE("OrthogonalConv refuses what are no frames, and inverses that are none", "[layers][errors]") {
  const auto refused = [](const OrthogonalConv& options, Index inputs,
                          std::initializer_list<std::string> words) {
    check_refused_map(options, inputs, words);
  };
  refused({.kernel_size = 4}, 64, {"orthogonal_conv", "kernel size 4", "odd"});
  refused({}, 65, {"orthogonal_conv", "65 inputs", "8 x 8 pixels"});
  refused({}, 0, {"0 inputs"});
  refused({.height = 0}, 64, {"height 0", "at least 1"});
  refused({.channels = 3, .height = -1}, 64, {"height -1", "at least 1"});
  refused({.channels = -1}, 64, {"channels", "-1"});
  ParameterSet<float> parameters;
  CHECK_THROWS_AS(
      OrthogonalConvLayer<float>(parameters, "a", {.height = Index{1} << 40, .width = Index{1} << 40}, 1),
      ShapeError);
  CHECK_THROWS_AS(
      OrthogonalConvLayer<float>::add_parameters(parameters, "a", {.kernel_size = (Index{1} << 40) + 1}, 64),
      ShapeError);

  const auto has_no_inverse = [](const OrthogonalConv& options, std::initializer_list<std::string> words) {
    ConvMapCase c(options, 64 * 2);
    Tensor<double> y({3, c.layer.output_size()}), x({3, c.layer.input_size()});
    check_says<ValueError>([&] { c.layer.inverse(y, x); }, words);
    check_says<ValueError>([&] { static_cast<void>(c.layer.log_determinant()); }, words);
  };
  has_no_inverse({}, {"orthogonal_conv", "kernel size 3", "kernel size 1"});
  has_no_inverse({.channels = 3, .kernel_size = 1}, {"2 channels of input", "3 of output"});
  ConvMapCase c({.kernel_size = 1}, 64);
  Tensor<double> x({2, 64}), wide({2, 128});
  CHECK_THROWS_AS(c.layer.inverse(wide, x), ShapeError);
  CHECK_THROWS_AS(c.layer.inverse(x, wide), ShapeError);
  const Tensor<std::int32_t> symbols({2, 3});
  check_says<ValueError>([&] { c.layer.forward({.symbols = symbols}, {}, {}, c.saved); },
                         {"orthogonal_conv", "symbols"});
}

}  // namespace orthornn::testing
