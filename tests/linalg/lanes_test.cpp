#include "linalg/lanes.hpp"

#include <limits>

#include "orthornn/core/tensor.hpp"
#include "support/catch.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {
namespace {

template <class T>
void check_lanes() {
  // 16 floats or 8 doubles at once, and then 3 one by one.
  constexpr Index count = 64 / sizeof(T) + 3;
  Tensor<T> numbers = normal_tensor<T>({count}, 1), sigmoids(Shape{count}), tangents(Shape{count});
  numbers(0) = 0;
  numbers(1) = std::numeric_limits<T>::max();
  numbers(2) = -std::numeric_limits<T>::max();
  for_each_lanes<T>(count, [&]<class V>(Index n) {
    const V a = V::load(numbers.data() + n);
    sigmoid(a).store(sigmoids.data() + n);
    tanh_of(a).store(tangents.data() + n);
  });
  for (Index n = 0; n < count; ++n) {
    const auto alone = Lanes<T, 1>::load(numbers.data() + n);
    T expected_sigmoid = 0, expected_tangent = 0;
    sigmoid(alone).store(&expected_sigmoid);
    tanh_of(alone).store(&expected_tangent);
    CAPTURE(n, numbers(n));
    CHECK(sigmoids(n) == expected_sigmoid);
    CHECK(tangents(n) == expected_tangent);
  }
}

}  // namespace

TEST_CASE("numbers that are computed at once have the bits of single ones", "[linalg]") {
  check_lanes<float>();
  check_lanes<double>();
}

}  // namespace orthornn::testing
