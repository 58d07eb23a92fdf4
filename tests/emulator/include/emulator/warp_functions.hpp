#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <source_location>
#include <type_traits>

#include "emulator/fail.hpp"
#include "emulator/thread.hpp"

/// Shuffles, votes and reductions of a warp. Other than on the device, a shuffle from a lane outside of the
/// mask is an error here, as its value would be undefined there.

namespace orthornn::emulator {

template <class T>
struct Shuffle {
  T value;
  unsigned source;
  T result;
};

template <class T>
void shuffle_all(void* const (&arguments)[32]) {
  for (void* argument : arguments) {
    if (argument == nullptr) continue;
    auto& mine = *static_cast<Shuffle<T>*>(argument);
    if (arguments[mine.source] == nullptr) {
      fail("shuffle from lane " + std::to_string(mine.source) + ", which is not in the mask");
    }
    mine.result = static_cast<Shuffle<T>*>(arguments[mine.source])->value;
  }
}

template <class T>
T shuffle(unsigned mask, T value, unsigned source, const char* operation, std::source_location where) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 2));
  Shuffle<T> argument{value, source, value};
  warp_collective(mask, operation, &argument, shuffle_all<T>, where);
  return argument.result;
}

inline void check_width(int width, std::source_location where) {
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width))) {
    fail("shuffle of width " + std::to_string(width), where);
  }
}

struct Vote {
  bool predicate;
  unsigned result;
};

inline void vote_all(void* const (&arguments)[32]) {
  unsigned ballot = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if (arguments[i] != nullptr && static_cast<Vote*>(arguments[i])->predicate) ballot |= 1U << i;
  }
  for (void* argument : arguments) {
    if (argument != nullptr) static_cast<Vote*>(argument)->result = ballot;
  }
}

inline unsigned vote(unsigned mask, bool predicate, const char* operation, std::source_location where) {
  Vote argument{predicate, 0};
  warp_collective(mask, operation, &argument, vote_all, where);
  return argument.result;
}

template <class T, class Combine>
void reduce_all(void* const (&arguments)[32]) {
  T* first = nullptr;
  for (void* argument : arguments) {
    if (argument == nullptr) continue;
    if (first == nullptr) {
      first = static_cast<T*>(argument);
    } else {
      *first = Combine{}(*first, *static_cast<T*>(argument));
    }
  }
  for (void* argument : arguments) {
    if (argument != nullptr) *static_cast<T*>(argument) = *first;
  }
}

template <class Combine, class T>
T reduce(unsigned mask, T value, const char* operation, std::source_location where) {
  warp_collective(mask, operation, &value, reduce_all<T, Combine>, where);
  return value;
}

struct Add {
  // Sums of ints wrap around on the device.
  int operator()(int a, int b) const {
    return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  }
  unsigned operator()(unsigned a, unsigned b) const { return a + b; }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct And {
  unsigned operator()(unsigned a, unsigned b) const { return a & b; }
};
struct Or {
  unsigned operator()(unsigned a, unsigned b) const { return a | b; }
};
struct Xor {
  unsigned operator()(unsigned a, unsigned b) const { return a ^ b; }
};

inline void nothing_all(void* const (&)[32]) {}

}  // namespace orthornn::emulator

#define ORTHORNN_EMULATED_HERE std::source_location where = std::source_location::current()

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, ORTHORNN_EMULATED_HERE) {
  orthornn::emulator::check_width(width, where);
  const unsigned lane = orthornn::emulator::lane(), w = static_cast<unsigned>(width);
  const unsigned from = (lane & ~(w - 1)) | (static_cast<unsigned>(source) & (w - 1));
  return orthornn::emulator::shuffle(mask, value, from, "__shfl_sync", where);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, ORTHORNN_EMULATED_HERE) {
  orthornn::emulator::check_width(width, where);
  const unsigned lane = orthornn::emulator::lane(), w = static_cast<unsigned>(width);
  const unsigned from = (lane & (w - 1)) >= delta ? lane - delta : lane;
  return orthornn::emulator::shuffle(mask, value, from, "__shfl_up_sync", where);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, ORTHORNN_EMULATED_HERE) {
  orthornn::emulator::check_width(width, where);
  const unsigned lane = orthornn::emulator::lane(), w = static_cast<unsigned>(width);
  const unsigned from = (lane & (w - 1)) + delta < w ? lane + delta : lane;
  return orthornn::emulator::shuffle(mask, value, from, "__shfl_down_sync", where);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize, ORTHORNN_EMULATED_HERE) {
  orthornn::emulator::check_width(width, where);
  const unsigned lane = orthornn::emulator::lane(), w = static_cast<unsigned>(width);
  unsigned from = (lane ^ static_cast<unsigned>(lane_mask)) & 31;
  // Lanes of earlier groups can be read, those of later ones cannot.
  if (from > (lane | (w - 1))) from = lane;
  return orthornn::emulator::shuffle(mask, value, from, "__shfl_xor_sync", where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::vote(mask, predicate != 0, "__ballot_sync", where);
}

inline int __any_sync(unsigned mask, int predicate, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::vote(mask, predicate != 0, "__any_sync", where) != 0 ? 1 : 0;
}

inline int __all_sync(unsigned mask, int predicate, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::vote(mask, predicate != 0, "__all_sync", where) == mask ? 1 : 0;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::reduce<orthornn::emulator::Add>(mask, value, "__reduce_add_sync", where);
}
inline int __reduce_add_sync(unsigned mask, int value, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::reduce<orthornn::emulator::Add>(mask, value, "__reduce_add_sync", where);
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::reduce<orthornn::emulator::Minimum>(mask, value, "__reduce_min_sync", where);
}
inline int __reduce_min_sync(unsigned mask, int value, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::reduce<orthornn::emulator::Minimum>(mask, value, "__reduce_min_sync", where);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::reduce<orthornn::emulator::Maximum>(mask, value, "__reduce_max_sync", where);
}
inline int __reduce_max_sync(unsigned mask, int value, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::reduce<orthornn::emulator::Maximum>(mask, value, "__reduce_max_sync", where);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::reduce<orthornn::emulator::And>(mask, value, "__reduce_and_sync", where);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::reduce<orthornn::emulator::Or>(mask, value, "__reduce_or_sync", where);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, ORTHORNN_EMULATED_HERE) {
  return orthornn::emulator::reduce<orthornn::emulator::Xor>(mask, value, "__reduce_xor_sync", where);
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFU, ORTHORNN_EMULATED_HERE) {
  char nothing = 0;
  orthornn::emulator::warp_collective(mask, "__syncwarp", &nothing, orthornn::emulator::nothing_all, where);
}

inline void __syncthreads(ORTHORNN_EMULATED_HERE) { orthornn::emulator::synchronize_block(where); }

#undef ORTHORNN_EMULATED_HERE
