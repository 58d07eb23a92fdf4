// Convolutions of frames on the CPU, against sums of one product after the other.

#include "layers/frame_convolution.hpp"

#include <cmath>

#include "layers/direct_convolution.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

struct ConvolutionSizes {
  Index height, width, side, inputs, outputs;
};
constexpr Index frames_of_clip = 3;

/// factor K * x of some frames.
Tensor<double> convolved(const ConvolutionSizes& s, const Tensor<double>& kernel, const Tensor<double>& x,
                         double factor) {
  Tensor<double> y({frames_of_clip, s.height, s.width, s.outputs});
  for (double& number : y) number = 0;
  for (Index b = 0; b < frames_of_clip; ++b) convolve_directly(kernel, x.view()[b], factor, y.view()[b]);
  return y;
}

template <class T>
double product_of(const Tensor<T>& a, const Tensor<double>& b) {
  double sum = 0;
  for (Index i = 0; i < a.size(); ++i) sum += static_cast<double>(a.data()[i]) * b.data()[i];
  return sum;
}

template <class T>
double length_of(const Tensor<T>& a) {
  return std::sqrt(product_of(a, cast<double>(a)));
}

}  // namespace

TEMPLATE_TEST_CASE("convolutions of frames and their gradients are sums of products", "[layers][gradient]",
                   float, double) {
  using T = TestType;
  // A pixel, rows that are whole groups of pixels and not, bands of rows that are whole and not, outputs that
  // fill vectors and do not, and kernels that reach beyond the frame.
  const ConvolutionSizes s = GENERATE(ConvolutionSizes{1, 1, 3, 1, 1}, ConvolutionSizes{8, 6, 3, 2, 16},
                                      ConvolutionSizes{9, 7, 3, 3, 5}, ConvolutionSizes{17, 13, 5, 1, 33},
                                      ConvolutionSizes{2, 3, 7, 4, 8}, ConvolutionSizes{5, 16, 3, 17, 3},
                                      ConvolutionSizes{4, 5, 1, 3, 2});
  CAPTURE(s.height, s.width, s.side, s.inputs, s.outputs);
  constexpr double factor = 0.5;
  const auto draw = [&](const Shape& shape, std::uint64_t seed) { return normal_tensor<T>(shape, seed); };
  const Shape kernel_shape{s.side, s.side, s.inputs, s.outputs},
      x_shape{frames_of_clip, s.height, s.width, s.inputs},
      y_shape{frames_of_clip, s.height, s.width, s.outputs};
  const Tensor<T> kernel = draw(kernel_shape, 1), x = draw(x_shape, 2), g = draw(y_shape, 3),
                  bias = draw({s.outputs}, 4);
  const FrameConvolution<T> map(s.height, s.width, s.side, s.inputs, s.outputs, T{factor}, Device::cpu());
  Tensor<T> neighbours(map.neighbours_shape(frames_of_clip));
  const Index terms = s.side * s.side * s.inputs, pixels = frames_of_clip * s.height * s.width;

  Tensor<T> y(y_shape), d_x = draw(x_shape, 5), d_kernel = draw(kernel_shape, 6);
  map.apply(kernel, bias, x, y, neighbours);
  map.add(kernel, x, y, neighbours);
  Tensor<double> expected = convolved(s, cast<double>(kernel), cast<double>(x), 2 * factor);
  for (Index i = 0; i < expected.size(); ++i)
    expected.data()[i] += static_cast<double>(bias.data()[i % s.outputs]);
  CHECK(relative_error(y, expected) <= tolerance::rounding<T>(2 * terms));

  // <g, K * v> for any v is the product of v and the gradient that is added, and so for a kernel.
  const Tensor<double> before_x = cast<double>(d_x), before_kernel = cast<double>(d_kernel);
  map.add_input_gradient(kernel, g, d_x, neighbours);
  map.add_kernel_gradient(x, g, d_kernel, neighbours);
  for (const std::uint64_t seed : {7, 8, 9}) {
    const Tensor<double> v = normal_tensor<double>(x_shape, seed),
                         k = normal_tensor<double>(kernel_shape, seed);
    const double of_x = product_of(d_x, v) - product_of(before_x, v),
                 of_kernel = product_of(d_kernel, k) - product_of(before_kernel, k);
    const double expected_of_x = product_of(g, convolved(s, cast<double>(kernel), v, factor)),
                 expected_of_kernel = product_of(g, convolved(s, k, cast<double>(x), factor));
    const Index of_pixel = s.side * s.side * s.outputs;
    CHECK(std::abs(of_x - expected_of_x) <= tolerance::rounding<T>(of_pixel) * length_of(d_x) * length_of(v));
    CHECK(std::abs(of_kernel - expected_of_kernel) <=
          tolerance::rounding<T>(pixels) * length_of(d_kernel) * length_of(k));
  }
}

}  // namespace orthornn::testing
