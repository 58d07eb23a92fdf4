#pragma once

/// CUDA's short vector types: plain structures with the alignment that CUDA gives them.

#define ORTHORNN_EMULATED_VECTORS(name, element)                                       \
  struct name##1 {                                                                     \
    element x;                                                                         \
  };                                                                                   \
  struct alignas(2 * sizeof(element)) name##2 {                                        \
    element x, y;                                                                      \
  };                                                                                   \
  struct name##3 {                                                                     \
    element x, y, z;                                                                   \
  };                                                                                   \
  struct alignas(4 * sizeof(element) < 16 ? 4 * sizeof(element) : 16) name##4 {        \
    element x, y, z, w;                                                                \
  };                                                                                   \
  inline name##1 make_##name##1(element x) { return {x}; }                             \
  inline name##2 make_##name##2(element x, element y) { return {x, y}; }               \
  inline name##3 make_##name##3(element x, element y, element z) { return {x, y, z}; } \
  inline name##4 make_##name##4(element x, element y, element z, element w) { return {x, y, z, w}; }

ORTHORNN_EMULATED_VECTORS(char, signed char)
ORTHORNN_EMULATED_VECTORS(uchar, unsigned char)
ORTHORNN_EMULATED_VECTORS(short, short)
ORTHORNN_EMULATED_VECTORS(ushort, unsigned short)
ORTHORNN_EMULATED_VECTORS(int, int)
ORTHORNN_EMULATED_VECTORS(uint, unsigned)
ORTHORNN_EMULATED_VECTORS(longlong, long long)
ORTHORNN_EMULATED_VECTORS(ulonglong, unsigned long long)
ORTHORNN_EMULATED_VECTORS(float, float)
ORTHORNN_EMULATED_VECTORS(double, double)
#undef ORTHORNN_EMULATED_VECTORS

struct dim3 {
  unsigned x, y, z;

  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
