// Convolutions of frames on a GPU, in floats that are read in place and in gathered ones, against the CPU in
// double.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "core/for_each.hpp"
#include "core/set_zero.hpp"
#include "layers/frame_convolution.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {
namespace {

struct Sizes {
  Index height, width, side, inputs, outputs;
};

/// Frames are three at a time, and six in all.
constexpr Index frames_of_part = 3, frames = 6;

/// Numbers between the aligned memory of the device and the first number of an operand.
struct Shifts {
  Index frames = 0, sums = 0, bias = 0;
};

/// A tensor, and a view of it without its first `shift` numbers.
template <class T>
struct Shifted {
  Index shift;
  Tensor<T> all;

  Shifted(const Tensor<float>& numbers, Index shift_, Device device)
      : shift(shift_), all(Shape{shift_ + numbers.size()}, device) {
    copy<T>(cast<T>(numbers).copy(device).view().reshaped({numbers.size()}),
            all.view().slice(shift, numbers.size()));
  }
  TensorView<T> view() { return all.view().slice(shift, all.size() - shift); }
};

/// y, d_kernel and d_x, to which sums were added.
template <class T>
std::array<Tensor<T>, 3> results(const Sizes& s, const Execution& on, const Shifts& shifts = {}) {
  const auto draw = [&](const Shape& shape, std::uint64_t seed, Index shift = 0) {
    return Shifted<T>(normal_tensor<float>(shape, seed), shift, on.device);
  };
  const FrameConvolution<T> map(s.height, s.width, s.side, s.inputs, s.outputs, T{0.5}, on);
  const Index pixels = s.height * s.width, of_kernel = s.side * s.side * s.inputs;
  Shifted<T> kernel = draw({of_kernel, s.outputs}, 1), bias = draw({s.outputs}, 7, shifts.bias),
             x = draw({frames, pixels * s.inputs}, 2, shifts.frames),
             g = draw({frames, pixels * s.outputs}, 3, shifts.frames),
             y = draw({frames, pixels * s.outputs}, 4, shifts.sums),
             d_kernel = draw({of_kernel, s.outputs}, 5),
             d_x = draw({frames, pixels * s.inputs}, 6, shifts.sums);
  const TensorView<T> of_weights = kernel.view().reshaped({of_kernel, s.outputs});
  Tensor<T> neighbours(map.neighbours_shape(frames_of_part), on.device);
  map.apply(of_weights, bias.view(), x.view(), y.view(), neighbours);
  map.add(of_weights, x.view(), y.view(), neighbours);
  map.add_kernel_gradient(x.view(), g.view(), d_kernel.view().reshaped({of_kernel, s.outputs}), neighbours);
  map.add_input_gradient(of_weights, g.view(), d_x.view(), neighbours);
  std::array<Tensor<T>, 3> found;
  std::ranges::transform(std::array{&y, &d_kernel, &d_x}, found.begin(), [](Shifted<T>* numbers) {
    Tensor<T> copied(numbers->view().shape(), numbers->all.device());
    copy<T>(numbers->view(), copied);
    return copied.copy(Device::cpu());
  });
  return found;
}

/// Products of tf32 are off by 2^-11 of themselves at most, so a sum is off by less in all. Those of floats
/// on tensor cores are off by 2^-21 (cuda/core/tf32_terms.cuh). A sum of them without the second terms would
/// be off as in tf32.
template <class T>
double bound_of(Precision precision) {
  return std::is_same_v<T, double> ? 1e-12 : precision == Precision::fp32 ? 0x1p-19 : 0x1p-11;
}

template <class T>
void check_as_on_cpu(const Sizes& s, const Execution& on, const Shifts& shifts = {}) {
  CAPTURE(s.height, s.width, s.side, s.inputs, s.outputs, on.precision == Precision::fp32);
  CAPTURE(shifts.frames, shifts.sums, shifts.bias);
  const auto expected = results<double>(s, Device::cpu());
  const auto found = results<T>(s, on, shifts);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(found[i], expected[i]) <= bound_of<T>(on.precision));
  }
}

/// The same for operands of a step.
struct StepShifts {
  Index h = 0, d_last = 0, last = 0;
};

/// y, the last states and d_x after a convolution and its gradient with a step of relu: in them, or `apart`,
/// after them. The sequences end before this step, with it and after it.
std::array<Tensor<float>, 3> after_steps(const Sizes& s, Device device, const StepShifts& shifts,
                                         bool apart) {
  const FrameConvolution<float> map(s.height, s.width, s.side, s.inputs, s.outputs, 0.5F, device);
  const Index pixels = s.height * s.width, batch = 3, of_x = pixels * s.inputs, of_y = pixels * s.outputs;
  const auto draw = [&](const Shape& shape, std::uint64_t seed) {
    return normal_tensor<float>(shape, seed).copy(device);
  };
  const Tensor<float> kernel = draw({s.side * s.side * s.inputs, s.outputs}, 1), x = draw({batch, of_x}, 2),
                      g = draw({batch, of_y}, 3);
  Tensor<float> states = normal_tensor<float>({batch, of_x}, 5);
  for (float& number : states) number = std::max(number, 0.0F);
  Shifted<float> h(states, shifts.h, device),
      d_last(normal_tensor<float>({batch, of_x}, 4), shifts.d_last, device),
      last(normal_tensor<float>({batch, of_y}, 7), shifts.last, device);
  Tensor<std::int32_t> live(Shape{batch});
  std::iota(live.begin(), live.end(), 1);
  const Tensor<std::int32_t> lengths = live.copy(device);
  Tensor<float> y = draw({batch, of_y}, 6), d_x = draw({batch, of_x}, 8);
  Tensor<float> neighbours(map.neighbours_shape(batch), device);
  const pointwise::ReluStep<float> step{3, 1, of_y, lengths.data(), y.data(), last.view().data()};
  const pointwise::ReluStepBackward<float> gradient{
      3, 1, of_x, lengths.data(), h.view().data(), d_last.view().data(), d_x.data()};
  map.add(kernel, x, y, neighbours, apart ? pointwise::ReluStep<float>{} : step);
  map.add_input_gradient(kernel, g, d_x, neighbours, apart ? pointwise::ReluStepBackward<float>{} : gradient);
  if (apart) {
    for_each_entry(device, of_y, batch, step);
    for_each_entry(device, of_x, batch, gradient);
  }
  return {y.copy(Device::cpu()), last.all.copy(Device::cpu()), d_x.copy(Device::cpu())};
}

}  // namespace

TEST_CASE("a convolution of frames on a GPU with a step of relu does what both do one after the other",
          "[layers][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const auto check = [&](const Sizes& sizes, const StepShifts& shifts = {}) {
    CAPTURE(sizes.side, sizes.inputs, shifts.h, shifts.d_last, shifts.last);
    const auto together = after_steps(sizes, *device, shifts, false),
               apart = after_steps(sizes, *device, shifts, true);
    for (std::size_t i = 0; i < together.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(together[i], apart[i]));
    }
  };
  // Outputs in pairs, a single octet, an odd number, and neighbourhoods that are copied.
  for (const Sizes& sizes :
       {Sizes{9, 20, 3, 36, 20}, Sizes{9, 20, 3, 8, 8}, Sizes{17, 33, 5, 3, 10}, Sizes{4, 5, 7, 2, 3}})
    check(sizes);
  // Pairs that are not aligned.
  for (const StepShifts& shifts : {StepShifts{.h = 1}, StepShifts{.d_last = 1}, StepShifts{.last = 1}})
    check({9, 20, 3, 36, 20}, shifts);
}

TEMPLATE_TEST_CASE("convolutions of frames on a GPU are those of the CPU", "[layers][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  // A pixel, tiles that are full and not, channels that come one by one and in words, and more than a block
  // has.
  for (const Sizes& sizes :
       {Sizes{1, 1, 1, 1, 1}, Sizes{5, 7, 3, 1, 1}, Sizes{16, 16, 3, 8, 8}, Sizes{17, 33, 3, 3, 10},
        Sizes{9, 20, 3, 1, 32}, Sizes{9, 20, 3, 36, 20}, Sizes{8, 17, 3, 33, 35}, Sizes{9, 20, 5, 4, 20},
        Sizes{8, 8, 5, 33, 3}, Sizes{8, 8, 1, 6, 33}, Sizes{8, 9, 7, 2, 3}}) {
    for (const Precision precision : {Precision::fp32, Precision::tf32})
      check_as_on_cpu<TestType>(sizes, Execution(*device, precision));
  }
  // Operands whose groups of four and of two numbers are not aligned.
  for (const Shifts& shifts : {Shifts{.frames = 1}, Shifts{.sums = 1}, Shifts{.bias = 1}})
    check_as_on_cpu<TestType>({9, 20, 3, 36, 20}, *device, shifts);
  // So many channels that a block sums the gradients of the kernel over several tiles.
  check_as_on_cpu<TestType>({17, 33, 3, 65, 65}, *device);
}

TEST_CASE("sums of convolutions of frames on a GPU have the errors of float, or of tf32", "[layers][cuda]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;  // the emulator has no tensor cores that multiply tf32
  // All numbers are positive: tensor cores cut off what they add to a sum, so all its errors have one sign.
  const Sizes s{64, 64, 3, 32, 32};
  constexpr Index batch = 40;
  const auto draw = [](const Shape& shape, std::uint64_t seed) {
    Tensor<float> numbers = normal_tensor<float>(shape, seed);
    for (float& number : numbers) number = std::abs(number);
    return numbers;
  };
  const Tensor<float> kernel = draw({9 * s.inputs, s.outputs}, 1), x = draw({batch, 4096 * s.inputs}, 2),
                      g = draw({batch, 4096 * s.outputs}, 3);
  const auto sums_of = [&]<class T>(T, const Execution& on) {
    const FrameConvolution<T> map(s.height, s.width, s.side, s.inputs, s.outputs, T{1}, on);
    const auto copied = [&](const Tensor<float>& numbers) { return cast<T>(numbers).copy(on.device); };
    const Tensor<T> own_x = copied(x);
    std::array<Tensor<T>, 2> sums{Tensor<T>(g.shape(), on.device), Tensor<T>(kernel.shape(), on.device)};
    Tensor<T> neighbours(map.neighbours_shape(1), on.device);
    set_zero<T>(sums[0]), set_zero<T>(sums[1]);
    map.add(copied(kernel), own_x, sums[0], neighbours);
    map.add_kernel_gradient(own_x, copied(g), sums[1], neighbours);
    for (Tensor<T>& numbers : sums) numbers = numbers.copy(Device::cpu());
    return sums;
  };
  const auto expected = sums_of(double{}, Device::cpu());
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    const auto found = sums_of(float{}, Execution(*device, precision));
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i, precision == Precision::fp32);
      CHECK(relative_error(found[i], expected[i]) <= bound_of<float>(precision));
    }
    // The gradient of the kernel is a mean of so many products that it shows nothing of their precision.
    CHECK((relative_error(found[0], expected[0]) <= bound_of<float>(Precision::fp32)) ==
          (precision == Precision::fp32));
  }
}

TEST_CASE("a GPU copies neighbourhoods of kernels that are not of 3 x 3 or 5 x 5 pixels", "[layers][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const auto copies = [&](Index side, Index outputs) {
    const FrameConvolution<float> map(4, 5, side, 2, outputs, 1, *device);
    return map.neighbours_shape(3) == Shape{3 * 20, side * side * 2};
  };
  CHECK(copies(3, 300) == is_emulated(*device));
  CHECK(copies(5, 1) == is_emulated(*device));
  CHECK(copies(7, 1));
  CHECK_FALSE(copies(1, 129));
}

TEST_CASE("convolutions of frames on a GPU have the same bits at every call", "[layers][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const Sizes sizes{17, 33, 3, 32, 32};
  const auto first = results<float>(sizes, *device), second = results<float>(sizes, *device);
  for (std::size_t i = 0; i < first.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(first[i], second[i]));
  }
}

}  // namespace orthornn::testing
