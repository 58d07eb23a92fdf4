#include <cuda_bf16.h>

#include <cmath>
#include <random>

#include "support.hpp"

namespace {

using namespace orthornn::ptx;

unsigned pack(__nv_bfloat16 low, __nv_bfloat16 high) {
  return static_cast<unsigned>(__bfloat16_as_ushort(low)) | static_cast<unsigned>(__bfloat16_as_ushort(high))
                                                                << 16;
}

/// Loads the fragments element by element by the formulas of the PTX ISA, "Matrix Fragments for mma.m16n8k16
/// with floating point type": a is 16 x 16 and c 16 x 8, both by rows; b is 16 x 8.
__global__ void bf16_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  const unsigned lane = threadIdx.x, group = lane >> 2, in_group = lane % 4;
  __nv_bfloat16 a_elements[8], b_elements[4];
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
    const unsigned column = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    a_elements[i] = a[row * 16 + column];
  }
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0);
    b_elements[i] = b[row * 8 + group];
  }
  unsigned a_fragment[4], b_fragment[2];
  for (unsigned i = 0; i < 4; ++i) a_fragment[i] = pack(a_elements[2 * i], a_elements[2 * i + 1]);
  for (unsigned i = 0; i < 2; ++i) b_fragment[i] = pack(b_elements[2 * i], b_elements[2 * i + 1]);
  float c_fragment[4];
  for (unsigned i = 0; i < 4; ++i)
    c_fragment[i] = c[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)];
  mma_m16n8k16_bf16(c_fragment, a_fragment, b_fragment);
  for (unsigned i = 0; i < 4; ++i)
    c[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = c_fragment[i];
}

void check_product(const std::vector<__nv_bfloat16>& a, const std::vector<__nv_bfloat16>& b,
                   const std::vector<float>& before, const std::vector<float>& after) {
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned column = 0; column < 8; ++column) {
      double sum = before[row * 8 + column];
      for (unsigned k = 0; k < 16; ++k) {
        sum +=
            static_cast<double>(static_cast<float>(a[row * 16 + k])) * static_cast<float>(b[k * 8 + column]);
      }
      CHECK(after[row * 8 + column] == Approx(sum).margin(1e-6));
    }
  }
}

std::vector<float> random_values(std::size_t size, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(engine);
  return values;
}

std::vector<__nv_bfloat16> random_bf16(std::size_t size, unsigned seed) {
  std::vector<__nv_bfloat16> values;
  for (const float value : random_values(size, seed)) values.push_back(__float2bfloat16(value));
  return values;
}

}  // namespace

TEST_CASE("mma.m16n8k16 multiplies bf16 fragments") {
  const auto a = random_bf16(256, 1), b = random_bf16(128, 2);
  const auto c = random_values(128, 3);
  const DeviceVector a_device(a), b_device(b);
  const DeviceVector c_device(c);
  REQUIRE(launch({}, bf16_kernel, a_device.data(), b_device.data(), c_device.data()) == cudaSuccess);
  check_product(a, b, c, c_device.values());
}

TEST_CASE("Rounding to tf32 and bf16") {
  CHECK(round_to_tf32(1.0F) == 0x3F800000U);
  CHECK(round_to_tf32(__uint_as_float(0x3F800FFFU)) == 0x3F800000U);
  CHECK(round_to_tf32(__uint_as_float(0x3F801000U)) == 0x3F802000U);  // ties away from zero
  CHECK(round_to_tf32(__uint_as_float(0xBF801000U)) == 0xBF802000U);
  CHECK(round_to_tf32(INFINITY) == 0x7F800000U);
  const auto bits = [](float x) { return __bfloat16_as_ushort(__float2bfloat16(x)); };
  CHECK(bits(1.0F) == 0x3F80);
  CHECK(bits(__uint_as_float(0x3F808000U)) == 0x3F80);  // ties to even
  CHECK(bits(__uint_as_float(0x3F818000U)) == 0x3F82);
  CHECK(bits(__uint_as_float(0x3F808001U)) == 0x3F81);
  CHECK(bits(-INFINITY) == 0xFF80);
  CHECK(bits(3.4e38F) == 0x7F80);
  CHECK(bits(NAN) == 0x7FFF);
  const __nv_bfloat162 pair = __floats2bfloat162_rn(1.5F, -2.0F);
  CHECK(__low2float(pair) == 1.5F);
  CHECK(__high2float(pair) == -2.0F);
  CHECK(__bfloat1622float2(pair).y == -2.0F);
}
