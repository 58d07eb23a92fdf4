#include "orthornn/layers/conv_neru_layer.hpp"

#include <cmath>
#include <initializer_list>

#include "layers/direct_convolution.hpp"
#include "layers/frame_convolution.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/linalg/orthogonality.hpp"
#include "orthornn/orthogonal/truncated_cwy.hpp"
#include "support/check_says.hpp"
#include "support/layer_case.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {
namespace {

/// A layer of frames of 2 channels, neither square nor larger than a kernel of 5.
auto layer_of(const ConvNeru& options) {
  return [options](ParameterSet<double>& parameters) {
    return std::make_unique<ConvNeruLayer<double>>(parameters, "layer", options,
                                                   options.height * options.width * 2);
  };
}

/// The largest singular value of x -> factor K * x, from below.
double norm_of(const FrameConvolution<double>& convolution, ConstTensorView<double> kernel, Index numbers) {
  Tensor<double> x = normal_tensor<double>({1, numbers}, 1), y({1, numbers}),
                 neighbours(convolution.neighbours_shape(1));
  double norm = 0;
  for (int i = 0; i < 300; ++i) {
    const double length = frobenius_norm(x);
    for (double& number : x) number /= length;
    y.resize(y.shape());
    convolution.add(kernel, x, y, neighbours);
    norm = frobenius_norm(y);
    x.resize(x.shape());
    convolution.add_input_gradient(kernel, y, x, neighbours);
  }
  return norm;
}

}  // namespace

TEST_CASE("ConvNERU is the recurrence of convolutions that are summed one by one", "[layers]") {
  for (const HiddenKernel hidden :
       {HiddenKernel::stiefel, HiddenKernel::own, HiddenKernel::matrix, HiddenKernel::zeros}) {
    for (const Index q : {1, 3, 5}) {
      CAPTURE(name_of(hidden), q);
      const ConvNeru options{
          .hidden_size = 3, .height = 3, .width = 4, .kernel_size = q, .hidden_kernel = hidden};
      LayerCase<double> c(layer_of(options), 4, 2);
      c.forward();
      const auto value = [&](const char* name) {
        return std::as_const(c.parameters).value(c.parameters.find(std::string("layer/") + name));
      };
      const bool is_free = hidden == HiddenKernel::zeros;
      const StiefelKind kind = hidden == HiddenKernel::stiefel ? StiefelKind::truncated_cwy
                               : hidden == HiddenKernel::own   ? StiefelKind::weight_normalization
                                                               : StiefelKind::matrix;
      const auto point = make_stiefel_point<double>(kind, q * q * 3, 3);
      if (!is_free) point->prepare(value(("hidden_" + stiefel_parameter(kind, q * q * 3, 3).name).c_str()));
      const ConstTensorView<double> kernel = is_free ? value("hidden_kernel") : point->omega();
      Tensor<double> expected(c.y.shape());
      for (Index b = 0; b < 2; ++b) {
        Tensor<double> h(Shape{3, 4, 3}), next(h.shape());
        copy<double>(c.start[0].view()[b].reshaped(h.shape()), h);
        for (Index t = 0; t < 4; ++t) {
          for (Index i = 0; i < next.size(); ++i) next.data()[i] = value("bias")(i % 3);
          convolve_directly(kernel.reshaped({q, q, 3, 3}), h, is_free ? 1 : 1 / static_cast<double>(q), next);
          convolve_directly(value("input_kernel").reshaped({q, q, 2, 3}),
                            std::as_const(c.x).view()[t][b].reshaped({3, 4, 2}), 1, next);
          for (Index i = 0; i < next.size(); ++i) h.data()[i] = std::max(next.data()[i], 0.0);
          copy<double>(h.view().reshaped({36}), expected.view()[t][b]);
        }
      }
      CHECK(relative_error(c.y, expected) <= tolerance::rounding<double>(4 * 5 * q * q));
    }
  }
}

TEST_CASE("gradients of ConvNERU on frames are those of finite differences", "[layers][gradient]") {
  for (const HiddenKernel hidden :
       {HiddenKernel::stiefel, HiddenKernel::own, HiddenKernel::matrix, HiddenKernel::glorot}) {
    for (const Index q : {1, 3, 5}) {
      CAPTURE(name_of(hidden), q);
      LayerCase<double> c(
          layer_of({.hidden_size = 2, .height = 3, .width = 4, .kernel_size = q, .hidden_kernel = hidden}), 3,
          3);
      c.set_lengths({3, 0, 2});
      check_gradients(c);
    }
  }
}

TEST_CASE("the hidden convolution of ConvNERU enlarges nothing", "[layers]") {
  const Index f = GENERATE(1, 4), q = GENERATE(1, 3, 5);
  const Index size = 6, numbers = size * size * f;
  CAPTURE(f, q);
  const auto of_factor = [&](double factor) {
    return FrameConvolution<double>(size, size, q, f, f, factor, {});
  };
  const FrameConvolution<double> scaled = of_factor(1 / static_cast<double>(q));
  TruncatedCwy<double> point(q * q * f, f);
  Tensor<double> vectors(point.parameter_shape());
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    point.initialize(seed, vectors);
    point.prepare(vectors);
    CHECK(norm_of(scaled, point.omega(), numbers) <= 1 + tolerance::rounding<double>(numbers));
  }
  // A kernel that is the same everywhere comes near to it, and Omega alone would pass it.
  Tensor<double> even({q * q, f, f});
  for (Index offset = 0; offset < q * q; ++offset) {
    for (Index i = 0; i < f; ++i) even(offset, i, i) = 1 / static_cast<double>(q);
  }
  const Tensor<double>& kernel = even;
  const ConstTensorView<double> omega = kernel.view().reshaped({q * q * f, f});
  CHECK(norm_of(scaled, omega, numbers) > (q == 5 ? 0.6 : 0.7));
  if (q > 1) CHECK(norm_of(of_factor(1), omega, numbers) > 2);
}

TEST_CASE("ConvNERU begins as its hidden kernel says", "[layers]") {
  for (const auto& [name, hidden] : Names<HiddenKernel>::list) {
    CAPTURE(name);
    ParameterSet<double> parameters;
    ConvNeruLayer<double> layer(parameters, "layer", {.hidden_size = 4, .hidden_kernel = hidden}, 64);
    parameters.allocate(Device::cpu());
    layer.initialize(3);
    layer.prepare();
    const auto error = layer.orthogonality_error();
    const bool is_point = hidden == HiddenKernel::matrix;
    CHECK(error.has_value() == (hidden == HiddenKernel::stiefel || hidden == HiddenKernel::own || is_point));
    if (error) {
      CHECK(*error <= tolerance::rounding<double>(36));
      CHECK(parameters.list()[1].kind == (is_point ? ParameterKind::stiefel : ParameterKind::orthogonal));
      continue;
    }
    Tensor<double> kernel(Shape{36, 4});
    copy<double>(parameters.value(1), kernel);
    if (hidden == HiddenKernel::zeros) CHECK(frobenius_norm(kernel) == 0);
    if (hidden == HiddenKernel::glorot) {
      const double bound = std::sqrt(6.0 / (2 * 36));
      for (const double x : kernel) CHECK(std::abs(x) <= bound);
      CHECK(*std::max_element(kernel.begin(), kernel.end()) > 0.9 * bound);
    }
    if (hidden == HiddenKernel::orthogonal) {
      for (double& x : kernel) x *= 3;
      CHECK(orthogonality_error(kernel) <= tolerance::rounding<double>(36));
    }
  }
}

TEST_CASE("ConvNERU has the same bits for every number of threads", "[layers]") {
  const auto run = [](int threads) {
    const Threads scope(threads);
    LayerCase<float> c(
        [](ParameterSet<float>& parameters) {
          return std::make_unique<ConvNeruLayer<float>>(parameters, "layer", ConvNeru{.height = 9}, 144);
        },
        3, 5);
    c.forward();
    c.backward();
    return std::pair(c.parameters.gradients().copy(), c.dx.copy());
  };
  const auto alone = run(1), shared = run(4);
  CHECK(same_bits(alone.first, shared.first));
  CHECK(same_bits(alone.second, shared.second));
}

TEST_CASE("ConvNERU refuses what are no frames", "[layers][errors]") {
  const auto refused = [](const ConvNeru& options, Index inputs, std::initializer_list<std::string> words) {
    ParameterSet<float> parameters;
    check_says<ValueError>([&] { ConvNeruLayer<float>::add_parameters(parameters, "a", options, inputs); },
                           words);
    check_says<ValueError>([&] { ConvNeruLayer<float>(parameters, "a", options, inputs); }, words);
  };
  refused({.kernel_size = 4}, 64, {"convneru", "kernel size 4", "odd"});
  refused({}, 65, {"convneru", "65 inputs", "8 x 8 pixels"});
  refused({}, 0, {"0 inputs"});
  refused({.hidden_size = 0}, 64, {"hidden size 0", "at least 1"});
  ParameterSet<float> parameters;
  CHECK_THROWS_AS(
      ConvNeruLayer<float>(parameters, "a", {.height = Index{1} << 40, .width = Index{1} << 40}, 1),
      ShapeError);
}

}  // namespace orthornn::testing
