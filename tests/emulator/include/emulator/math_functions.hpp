#pragma once

#include <math.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>

/// What CUDA has beyond <math.h>. The fast functions are as exact as the others here.

inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return std::pow(10.0F, x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanhf(float x) { return std::tanh(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
// The compiler must not contract these into a multiply-add, which is what they are for.
[[gnu::optimize("fp-contract=off"), gnu::noinline]] inline float __fmul_rn(float x, float y) { return x * y; }
[[gnu::optimize("fp-contract=off"), gnu::noinline]] inline float __fadd_rn(float x, float y) { return x + y; }
[[gnu::optimize("fp-contract=off"), gnu::noinline]] inline float __fsub_rn(float x, float y) { return x - y; }
/// Not a number becomes zero, as on the device.
inline float __saturatef(float x) { return x > 0.0F ? (x < 1.0F ? x : 1.0F) : 0.0F; }

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline int __float2int_rd(float x) { return static_cast<int>(std::floor(x)); }
inline int __float2int_ru(float x) { return static_cast<int>(std::ceil(x)); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(x) * y) >> 32);
}
inline int __mulhi(int x, int y) { return static_cast<int>((static_cast<std::int64_t>(x) * y) >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  const unsigned long long x_low = x & 0xFFFFFFFFU, x_high = x >> 32, y_low = y & 0xFFFFFFFFU,
                           y_high = y >> 32;
  const unsigned long long middle = x_high * y_low + ((x_low * y_low) >> 32);
  return x_high * y_high + (middle >> 32) + ((x_low * y_high + (middle & 0xFFFFFFFFU)) >> 32);
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= ((x >> i) & 1U) << (31 - i);
  return reversed;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = x | static_cast<std::uint64_t>(y) << 32;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned select = (selector >> (4 * i)) & 0xFU;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (select & 7U))) & 0xFFU;
    if ((select & 8U) != 0) byte = (byte & 0x80U) != 0 ? 0xFFU : 0U;
    result |= byte << (8 * i);
  }
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((static_cast<std::uint64_t>(high) << 32 | low) << (shift & 31U)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(high) << 32 | low) >> (shift & 31U));
}

inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long min(long a, long b) { return b < a ? b : a; }
inline long max(long a, long b) { return a < b ? b : a; }
inline unsigned long min(unsigned long a, unsigned long b) { return b < a ? b : a; }
inline unsigned long max(unsigned long a, unsigned long b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }

/// Nanoseconds: only good for being different later.
inline long long clock64() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
