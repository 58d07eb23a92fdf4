// Convolutions of frames on the CPU, against sums of one product after the other.

#include "layers/frame_convolution.hpp"

#include <array>

#include "layers/direct_convolution.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

struct ConvolutionSizes {
  Index height, width, side, inputs, outputs;
};
constexpr Index frames_of_clip = 3;

/// y, d_x and d_kernel, to which sums were added.
template <class T>
using Results = std::array<Tensor<T>, 3>;

constexpr double factor = 0.5;

/// Operands with the same numbers for every T.
template <class T>
struct ConvolutionCase {
  ConvolutionSizes s;
  Shape kernel_shape{s.side, s.side, s.inputs, s.outputs},
      x_shape{frames_of_clip, s.height, s.width, s.inputs},
      y_shape{frames_of_clip, s.height, s.width, s.outputs};
  Tensor<T> kernel = draw(kernel_shape, 1), x = draw(x_shape, 2), g = draw(y_shape, 3),
            bias = draw({s.outputs}, 4);

  static Tensor<T> draw(const Shape& shape, std::uint64_t seed) {
    return cast<T>(normal_tensor<float>(shape, seed));
  }
  /// What sums are added to.
  Results<T> before() const { return {Tensor<T>(y_shape), draw(x_shape, 5), draw(kernel_shape, 6)}; }
};

template <class T>
Results<T> found_for(const ConvolutionSizes& s) {
  const ConvolutionCase<T> c{s};
  Results<T> results = c.before();
  auto& [y, d_x, d_kernel] = results;
  const FrameConvolution<T> map(s.height, s.width, s.side, s.inputs, s.outputs, T{factor}, Device::cpu());
  Tensor<T> neighbours(map.neighbours_shape(frames_of_clip));
  map.apply(c.kernel, c.bias, c.x, y, neighbours);
  map.add(c.kernel, c.x, y, neighbours);
  map.add_input_gradient(c.kernel, c.g, d_x, neighbours);
  map.add_kernel_gradient(c.x, c.g, d_kernel, neighbours);
  return results;
}

/// d_x and d_kernel += the gradients of factor K * x, one product after the other.
void add_gradients_directly(const ConvolutionCase<double>& c, Index frame, TensorView<double> d_x,
                            TensorView<double> d_kernel) {
  const ConvolutionSizes& s = c.s;
  const auto x = c.x.view()[frame], g = c.g.view()[frame], kernel = c.kernel.view();
  for (Index i = 0; i < s.height; ++i) {
    for (Index j = 0; j < s.width; ++j) {
      for (Index di = 0; di < s.side; ++di) {
        for (Index dj = 0; dj < s.side; ++dj) {
          const Index row = i + di - s.side / 2, column = j + dj - s.side / 2;
          if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
          for (Index in = 0; in < s.inputs; ++in) {
            for (Index out = 0; out < s.outputs; ++out) {
              d_x(row, column, in) += factor * kernel(di, dj, in, out) * g(i, j, out);
              d_kernel(di, dj, in, out) += factor * x(row, column, in) * g(i, j, out);
            }
          }
        }
      }
    }
  }
}

/// What `found_for` finds, one product after the other.
Results<double> expected_for(const ConvolutionSizes& s) {
  const ConvolutionCase<double> c{s};
  Results<double> results = c.before();
  auto& [y, d_x, d_kernel] = results;
  for (Index i = 0; i < y.size(); ++i) y.data()[i] = c.bias.data()[i % s.outputs];
  for (Index b = 0; b < frames_of_clip; ++b) {
    convolve_directly(c.kernel, c.x.view()[b], 2 * factor, y.view()[b]);
    add_gradients_directly(c, b, d_x.view()[b], d_kernel);
  }
  return results;
}

}  // namespace

TEMPLATE_TEST_CASE("convolutions of frames and their gradients are sums of products", "[layers][gradient]",
                   float, double) {
  // A pixel; groups of pixels that are whole and that are not; bands of rows that are whole and not, and so
  // many that some are summed together; outputs that fill vectors and do not; kernels that reach beyond the
  // frame.
  const ConvolutionSizes s = GENERATE(
      ConvolutionSizes{1, 1, 3, 1, 1}, ConvolutionSizes{8, 6, 3, 2, 16}, ConvolutionSizes{9, 7, 3, 3, 5},
      ConvolutionSizes{17, 13, 5, 1, 33}, ConvolutionSizes{2, 3, 7, 4, 8}, ConvolutionSizes{5, 16, 3, 17, 3},
      ConvolutionSizes{100, 10, 3, 2, 4}, ConvolutionSizes{3, 20, 3, 1, 9}, ConvolutionSizes{4, 5, 1, 3, 2});
  CAPTURE(s.height, s.width, s.side, s.inputs, s.outputs);
  const Results<TestType> found = found_for<TestType>(s);
  const Results<double> expected = expected_for(s);
  const Index offsets = s.side * s.side;
  const std::array<Index, 3> terms{2 * offsets * s.inputs, offsets * s.outputs,
                                   frames_of_clip * s.height * s.width};
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(found[i], expected[i]) <= tolerance::rounding<TestType>(terms[i]));
  }
}

TEST_CASE("convolutions of frames have the same bits for every number of threads", "[layers]") {
  const auto run = [](int threads) {
    const Threads scope(threads);
    return found_for<float>({100, 10, 3, 2, 20});
  };
  const Results<float> alone = run(1);
  for (const int threads : {2, 5}) {
    const Results<float> shared = run(threads);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      CAPTURE(threads, i);
      CHECK(same_bits(shared[i], alone[i]));
    }
  }
}

}  // namespace orthornn::testing
