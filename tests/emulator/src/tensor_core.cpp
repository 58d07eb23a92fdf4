#include <bit>
#include <cmath>

#include "emulated_ptx.hpp"
#include "emulator/warp_functions.hpp"

namespace orthornn::ptx {
namespace {

/// What one lane brings into a product, and takes out of it.
struct Fragments {
  float* d;
  const unsigned* a;
  const unsigned* b;
};

double low_bf16(unsigned pair) { return std::bit_cast<float>(pair << 16); }
double high_bf16(unsigned pair) { return std::bit_cast<float>(pair & 0xFFFF0000U); }

/// d += a b, where lane 4 g + t holds (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1) of d.
void multiply(const double (&a)[16][16], const double (&b)[16][8], void* const (&lanes)[32]) {
  for (int lane = 0; lane < 32; ++lane) {
    float* d = static_cast<Fragments*>(lanes[lane])->d;
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      double sum = d[i];
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      d[i] = static_cast<float>(sum);
    }
  }
}

void multiply_bf16(void* const (&lanes)[32]) {
  double a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<Fragments*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + 8 * (i % 2), column = 2 * t + 8 * (i / 2);
      a[row][column] = low_bf16(own.a[i]);
      a[row][column + 1] = high_bf16(own.a[i]);
    }
    for (int i = 0; i < 2; ++i) {
      b[2 * t + 8 * i][g] = low_bf16(own.b[i]);
      b[2 * t + 8 * i + 1][g] = high_bf16(own.b[i]);
    }
  }
  multiply(a, b, lanes);
}

constexpr unsigned all_lanes = 0xFFFFFFFFU;

}  // namespace

void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                       std::source_location where) {
  Fragments own{d, a, b};
  emulator::warp_collective(all_lanes, "mma_m16n8k16_bf16", &own, multiply_bf16, where);
}

unsigned round_to_tf32(float x) {
  const auto bits = std::bit_cast<unsigned>(x);
  return std::isfinite(x) ? (bits + 0x1000U) & 0xFFFFE000U : bits;
}

}  // namespace orthornn::ptx
