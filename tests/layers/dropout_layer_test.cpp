#include "orthornn/layers/dropout_layer.hpp"

#include <cmath>
#include <initializer_list>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {
namespace {

const Shape dropped_shape{10, 10, 1001};
constexpr double drop_probability = 0.3;

/// A key in the memory of a device.
Tensor<std::uint64_t> key(std::uint64_t value, Device device = Device::cpu()) {
  Tensor<std::uint64_t> here(Shape{1});
  here(0) = value;
  return here.copy(device);
}

/// Layer number `place` of a set that has nothing but Dropouts.
template <class T>
struct DropoutCase {
  ParameterSet<T> parameters;
  std::vector<std::unique_ptr<DropoutLayer<T>>> layers;
  Tensor<T> x, y, d_x;
  Saved saved, scratch;

  explicit DropoutCase(int place = 0, double drop_rate = drop_probability, Device device = Device::cpu())
      : x(dropped_shape),
        y(dropped_shape, device),
        d_x(dropped_shape, device),
        saved(device),
        scratch(device) {
    for (int i = 0; i <= place; ++i) {
      layers.push_back(std::make_unique<DropoutLayer<T>>(parameters, "drop" + std::to_string(i),
                                                         Dropout{.rate = drop_rate}, dropped_shape[2]));
    }
    parameters.allocate(device);
    std::fill(x.begin(), x.end(), T{1});
    x = x.copy(device);
    layers.back()->prepare();
  }
  /// Allocates and returns the mask, on the host, from ones.
  Tensor<T> forward(TensorView<const std::uint64_t> noise) {
    copy<T>(layers.back()->forward({.vectors = x, .noise = noise}, {}, {}, saved), y);
    return y.copy(Device::cpu());
  }
  Tensor<T> backward(const Tensor<T>& d_y, TensorView<const std::uint64_t> noise) {
    Tensor<T> d_output = d_y.copy(y.device());
    layers.back()->backward({.vectors = x, .noise = noise}, {.d_output = d_output, .d_input = d_x}, saved,
                            scratch);
    return d_x.copy(Device::cpu());
  }
};

double share_of_zeros(const Tensor<float>& x) {
  return static_cast<double>(std::count(x.begin(), x.end(), 0.0F)) / static_cast<double>(x.size());
}

double share_of_differences(const Tensor<float>& a, const Tensor<float>& b) {
  Index different = 0;
  for (Index i = 0; i < a.size(); ++i) different += a.data()[i] != b.data()[i];
  return static_cast<double>(different) / static_cast<double>(a.size());
}

// Five deviations of a share of so many numbers.
const double share_deviation = 5 * std::sqrt(0.25 / static_cast<double>(dropped_shape.count()));

}  // namespace

TEST_CASE("Dropout drops a share of the numbers and scales the others", "[layers]") {
  for (const double r : {0.1, 0.5, 0.9}) {
    CAPTURE(r);
    DropoutCase<float> c(0, r);
    const Tensor<float> y = c.forward(key(1));
    CHECK(std::abs(share_of_zeros(y) - r) < share_deviation);
    const auto scale = static_cast<float>(1 / (1 - r));
    for (const float x : y) REQUIRE((x == 0 || x == scale));
    // Every place of a group of four, and every feature, is dropped at times.
    for (Index n = 0; n < 8; ++n) {
      Index kept = 0;
      for (Index j = 0; j < 100; ++j) kept += y.data()[j * dropped_shape[2] + n] != 0;
      CHECK(kept < 100);
      CHECK(kept > 0);
    }
  }
}

TEST_CASE("a key and a layer decide the mask of Dropout", "[layers]") {
  const Tensor<float> first = DropoutCase<float>().forward(key(1));
  CHECK(equal(DropoutCase<float>().forward(key(1)), first));
  // Two independent masks differ in a share of 2 rate (1 - rate).
  const double expected = 2 * drop_probability * (1 - drop_probability);
  for (const std::uint64_t other : {std::uint64_t{2}, std::uint64_t{1} << 32, std::uint64_t{1} << 63})
    CHECK(std::abs(share_of_differences(DropoutCase<float>().forward(key(other)), first) - expected) <
          2 * share_deviation);
  CHECK(std::abs(share_of_differences(DropoutCase<float>(1).forward(key(1)), first) - expected) <
        2 * share_deviation);
  // A mask has the same places in double.
  const Tensor<double> wide = DropoutCase<double>().forward(key(1));
  for (Index i = 0; i < wide.size(); ++i) REQUIRE((wide.data()[i] == 0) == (first.data()[i] == 0));
}

TEST_CASE("Dropout without noise, and of rate 0, is the identity", "[layers]") {
  DropoutCase<float> c;
  c.x = normal_tensor<float>(dropped_shape, 1);
  CHECK(equal(c.forward({}), c.x));
  const Tensor<float> d_y = normal_tensor<float>(dropped_shape, 2);
  CHECK(equal(c.backward(d_y, {}), d_y));
  DropoutCase<float> keeps_all(0, 0);
  keeps_all.x = c.x.copy();
  CHECK(equal(keeps_all.forward(key(1)), c.x));
}

TEST_CASE("zeros stay zeros under Dropout", "[layers]") {
  DropoutCase<float> c;
  c.x = Tensor<float>(dropped_shape);
  CHECK(frobenius_norm(c.forward(key(1))) == 0);
}

TEST_CASE("the gradient of Dropout has the mask of its forward", "[layers]") {
  DropoutCase<float> c;
  Tensor<std::uint64_t> noise = key(5);
  const Tensor<float> mask = c.forward(noise);
  noise(0) = 6;  // the next step's, in the same memory
  const Tensor<float> d_y = normal_tensor<float>(dropped_shape, 2), d_x = c.backward(d_y, noise);
  for (Index i = 0; i < d_x.size(); ++i) REQUIRE(d_x.data()[i] == d_y.data()[i] * mask.data()[i]);
}

TEST_CASE("Dropout does not depend on the number of threads", "[layers]") {
  const auto run = [](int threads) {
    const Threads scope(threads);
    return DropoutCase<float>().forward(key(3));
  };
  CHECK(same_bits(run(1), run(4)));
}

TEST_CASE("Dropout refuses what it cannot do", "[layers][errors]") {
  ParameterSet<float> parameters;
  // 1 - 1e-9 is 1 in float.
  for (const double wrong : {-0.1, 1.0, 1 - 1e-9, std::nan("")}) {
    check_says<ValueError>([&] { DropoutLayer<float>(parameters, "a", {.rate = wrong}, 3); },
                           {"dropout", "rate", "[0, 1)"});
  }
  check_says<ValueError>([&] { DropoutLayer<float>(parameters, "a", {}, 0); }, {"0 inputs"});
  DropoutCase<float> c;
  const Tensor<std::uint64_t> two(Shape{2});
  check_says<ShapeError>([&] { c.forward(two); }, {"noise", "[2]", "[1]"});
  const Tensor<std::int32_t> symbols(Shape{2, 1});
  check_says<ValueError>([&] { c.layers[0]->forward({.symbols = symbols}, {}, {}, c.saved); },
                         {"dropout", "symbols"});
}

TEMPLATE_TEST_CASE("Dropout has the same mask on a GPU", "[cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  for (const int place : {0, 3}) {
    DropoutCase<T> here(place), there(place, drop_probability, *device);
    const Tensor<std::uint64_t> noise = key(9), noise_there = key(9, *device);
    CHECK(same_bits(there.forward(noise_there), here.forward(noise)));
    const Tensor<T> d_y = normal_tensor<T>(dropped_shape, 2);
    CHECK(same_bits(there.backward(d_y, noise_there), here.backward(d_y, noise)));
  }
}

}  // namespace orthornn::testing
