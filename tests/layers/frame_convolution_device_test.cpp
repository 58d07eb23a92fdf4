// Convolutions of frames on a GPU, in floats that are read in place and in gathered ones, against the CPU in
// double.

#include <algorithm>
#include <array>

#include "layers/frame_convolution.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

struct Sizes {
  Index height, width, side, inputs, outputs;
};

/// Frames are three at a time, and six in all.
constexpr Index frames_of_part = 3, frames = 6;

/// y, d_kernel and d_x, to which sums were added.
/// Frames that are read begin `shift` numbers behind the memory that a device gives, which is aligned.
template <class T>
std::array<Tensor<T>, 3> results(const Sizes& s, Device device, Index shift = 0) {
  const auto draw = [&](const Shape& shape, std::uint64_t seed) {
    return cast<T>(normal_tensor<float>(shape, seed)).copy(device);
  };
  const FrameConvolution<T> map(s.height, s.width, s.side, s.inputs, s.outputs, T{0.5}, device);
  const Index pixels = s.height * s.width;
  const Tensor<T> kernel = draw({s.side * s.side * s.inputs, s.outputs}, 1), bias = draw({s.outputs}, 7),
                  x = draw({shift + frames * pixels * s.inputs}, 2),
                  g = draw({shift + frames * pixels * s.outputs}, 3);
  const auto shifted = [&](const Tensor<T>& all) { return all.view().slice(shift, all.size() - shift); };
  std::array<Tensor<T>, 3> sums{draw({frames, pixels * s.outputs}, 4), draw(kernel.shape(), 5),
                                draw({frames, pixels * s.inputs}, 6)};
  Tensor<T> neighbours(map.neighbours_shape(frames_of_part), device);
  map.apply(kernel, bias, shifted(x), sums[0], neighbours);
  map.add(kernel, shifted(x), sums[0], neighbours);
  map.add_kernel_gradient(shifted(x), shifted(g), sums[1], neighbours);
  map.add_input_gradient(kernel, shifted(g), sums[2], neighbours);
  return sums;
}

template <class T>
void check_as_on_cpu(const Sizes& s, Device device, Index shift = 0) {
  CAPTURE(s.height, s.width, s.side, s.inputs, s.outputs);
  const auto expected = results<double>(s, Device::cpu(), shift);
  const auto found = results<T>(s, device, shift);
  const Index of_pixel = s.side * s.side * std::max(s.inputs, s.outputs),
              pixels = frames * s.height * s.width;
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    const Index terms = i == 1 ? pixels : of_pixel;
    CHECK(relative_error(found[i].copy(Device::cpu()), expected[i]) <= tolerance::rounding<T>(terms));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("convolutions of frames on a GPU are those of the CPU", "[layers][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  // A pixel, tiles that are full and not, channels that come one by one and in words, and more than a block
  // has.
  for (const Sizes& sizes :
       {Sizes{1, 1, 1, 1, 1}, Sizes{5, 7, 3, 1, 1}, Sizes{16, 16, 3, 8, 8}, Sizes{17, 33, 3, 3, 10},
        Sizes{9, 20, 3, 1, 32}, Sizes{9, 20, 3, 36, 20}, Sizes{8, 17, 3, 33, 35}, Sizes{9, 20, 5, 4, 20},
        Sizes{8, 8, 5, 33, 3}, Sizes{8, 8, 1, 6, 33}, Sizes{8, 9, 7, 2, 3}}) {
    check_as_on_cpu<TestType>(sizes, *device);
  }
  check_as_on_cpu<TestType>({9, 20, 3, 8, 8}, *device, 1);
  // So many channels that a block sums the gradients of the kernel over several tiles.
  check_as_on_cpu<TestType>({17, 33, 3, 65, 65}, *device);
}

TEST_CASE("a GPU copies neighbourhoods for many outputs, more of them in fp32", "[layers][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const auto copies = [&](Index side, Index outputs, Precision precision) {
    const FrameConvolution<float> map(4, 5, side, 2, outputs, 1, Execution(*device, precision));
    return map.neighbours_shape(3) == Shape{3 * 20, side * side * 2};
  };
  for (const Precision precision : {Precision::tf32, Precision::bf16}) {
    CHECK_FALSE(copies(3, 64, precision));
    CHECK(copies(3, 65, precision));
  }
  CHECK_FALSE(copies(5, 128, Precision::fp32));
  CHECK(copies(5, 129, Precision::fp32));
  CHECK(copies(7, 1, Precision::fp32));
  CHECK_FALSE(copies(1, 129, Precision::fp32));
}

TEST_CASE("convolutions of frames on a GPU have the same bits at every call", "[layers][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const Sizes sizes{17, 33, 3, 32, 32};
  const auto first = results<float>(sizes, *device), second = results<float>(sizes, *device);
  for (std::size_t i = 0; i < first.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(first[i].copy(Device::cpu()), second[i].copy(Device::cpu())));
  }
}

}  // namespace orthornn::testing
