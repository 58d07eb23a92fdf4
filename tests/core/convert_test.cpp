#include "orthornn/core/convert.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/same_bits.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

float of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Every bfloat16, and every number that lies between two of them, a little below and a little above.
Tensor<float> many_numbers() {
  Tensor<float> numbers({4, 1 << 16});
  for (std::uint32_t upper = 0; upper < 1 << 16; ++upper) {
    const std::uint32_t lower[] = {0, 0x7FFF, 0x8000, 0x8001};
    for (int i = 0; i < 4; ++i) numbers(i, upper) = of_bits(upper << 16 | lower[i]);
  }
  return numbers;
}

/// By the definition: the nearest bfloat16, found among the two around the number.
std::uint16_t rounded(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  const auto below = static_cast<std::uint16_t>(bits >> 16);  // towards zero
  const std::uint32_t half = 0x8000, rest = bits & 0xFFFF;
  if (rest < half || (rest == half && below % 2 == 0)) return below;
  return static_cast<std::uint16_t>(below + 1);
}

void check_conversions(Device device) {
  const Tensor<float> numbers = many_numbers();
  Tensor<bfloat16> narrow(numbers.shape(), device);
  convert(numbers.copy(device), narrow);
  const Tensor<bfloat16> on_host = narrow.copy(Device::cpu());
  for (Index i = 0; i < numbers.size(); ++i) {
    const float number = numbers.data()[i];
    const bfloat16 found = on_host.data()[i];
    if (std::isnan(number) ? !std::isnan(static_cast<float>(found)) : found.bits() != rounded(number)) {
      CAPTURE(number, found.bits());
      FAIL("rounded wrongly");
    }
  }
  // Back again nothing is lost.
  Tensor<float> wide(numbers.shape(), device);
  convert(narrow, wide);
  const Tensor<float> back = wide.copy(Device::cpu());
  for (Index i = 0; i < numbers.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(back.data()[i]);
    if (bits != std::uint32_t{on_host.data()[i].bits()} << 16) FAIL("entry " << i << " is not as it was");
  }
  // Lengths that the threads' shares do not divide.
  for (const Index count : {1, 7, 13}) {
    CAPTURE(count);
    Tensor<float> few({count});
    for (Index i = 0; i < count; ++i) few(i) = static_cast<float>(i + 1);
    Tensor<bfloat16> few_narrow({count}, device);
    convert(few.copy(device), few_narrow);
    Tensor<float> few_wide({count}, device);
    convert(few_narrow, few_wide);
    CHECK(same_bits(few_wide.copy(Device::cpu()), few));
  }
}

}  // namespace

TEST_CASE("a bfloat16 is the nearest to a float, and even where two are", "[bfloat16]") {
  STATIC_REQUIRE(static_cast<float>(bfloat16(1.0F)) == 1);
  const auto round_trip = [](float number) { return static_cast<float>(bfloat16(number)); };
  CHECK(round_trip(1 + 0x1p-8F) == 1);               // between 1 and 1 + 2^-7: the even one
  CHECK(round_trip(1 + 0x1.8p-7F) == 1 + 0x1p-6F);   // between 1 + 2^-7 and 1 + 2^-6: the even one
  CHECK(round_trip(1 + 0x1.02p-8F) == 1 + 0x1p-7F);  // just above
  CHECK(round_trip(3.4e38F) == infinity);
  CHECK(round_trip(-infinity) == -infinity);
  CHECK(std::signbit(round_trip(-0.0F)));
  CHECK(std::isnan(round_trip(of_bits(0x7F80'0001))));  // a NaN whose upper half is that of infinity
  CHECK(std::isnan(round_trip(of_bits(0xFFFF'FFFF))));  // one that rounds up to 0
}

TEST_CASE("tensors are converted to bfloat16 and back", "[bfloat16]") { check_conversions(Device::cpu()); }

TEST_CASE("tensors on a GPU are converted as on the CPU", "[bfloat16][cuda]") {
  const auto device = gpu();
  if (!device) return;
  check_conversions(*device);
  Tensor<float> here(Shape{3});
  Tensor<bfloat16> there(Shape{3}, *device);
  CHECK_THROWS_WITH(convert(here, there), contains("on cpu") && contains("on cuda:0"));
}

TEST_CASE("tensors of different shapes are not converted", "[bfloat16]") {
  Tensor<float> wide(Shape{3});
  Tensor<bfloat16> narrow(Shape{4});
  CHECK_THROWS_AS(convert(wide, narrow), ShapeError);
  CHECK_THROWS_AS(convert(narrow, wide), ShapeError);
}
