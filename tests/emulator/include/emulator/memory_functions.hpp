#pragma once

#include <type_traits>

#include "emulator/thread.hpp"

/// Loads and stores with a cache policy, fences and atomic operations. All threads run on one OS thread, so
/// plain loads and stores do; other threads may only get to run before an operation that could show it
/// (perhaps_yield).

template <class T>
T __ldg(const T* address) {
  return *address;
}

template <class T>
T __ldca(const T* address) {
  return *address;
}

template <class T>
T __ldcs(const T* address) {
  return *address;
}

template <class T>
T __ldcg(const T* address) {
  orthornn::emulator::perhaps_yield();
  return *address;
}

template <class T>
T __ldcv(const T* address) {
  orthornn::emulator::perhaps_yield();
  return *address;
}

template <class T>
void __stcg(T* address, std::type_identity_t<T> value) {
  *address = value;
  orthornn::emulator::perhaps_yield();
}

template <class T>
void __stcs(T* address, std::type_identity_t<T> value) {
  *address = value;
}

template <class T>
void __stwt(T* address, std::type_identity_t<T> value) {
  *address = value;
}

inline void __threadfence() { orthornn::emulator::perhaps_yield(); }
inline void __threadfence_block() { orthornn::emulator::perhaps_yield(); }
inline void __threadfence_system() { orthornn::emulator::perhaps_yield(); }
/// A wait in a loop needs the others to run: unlike the rest, this yields always.
inline void __nanosleep(unsigned) { orthornn::emulator::yield(); }

namespace orthornn::emulator {

template <class T, class... Types>
concept OneOf = (std::is_same_v<T, Types> || ...);
/// What CUDA has atomic operations for. Other than C++'s, its 64-bit type is unsigned long long alone.
template <class T>
concept AtomicInteger = OneOf<T, int, unsigned, unsigned long long>;
template <class T>
concept AtomicSigned = AtomicInteger<T> || OneOf<T, long long>;
template <class T>
concept AtomicSummand = AtomicInteger<T> || OneOf<T, float, double>;

template <class T, class Update>
T update_atomically(T* address, Update update) {
  perhaps_yield();
  const T old = *address;
  *address = update(old);
  return old;
}

}  // namespace orthornn::emulator

template <orthornn::emulator::AtomicSummand T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return orthornn::emulator::update_atomically(address, [value](T old) -> T {
    if constexpr (std::is_same_v<T, int>) {
      return static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value));  // wraps around
    } else {
      return old + value;
    }
  });
}

template <orthornn::emulator::OneOf<int, unsigned> T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return orthornn::emulator::update_atomically(address, [value](T old) {
    return static_cast<T>(static_cast<unsigned>(old) - static_cast<unsigned>(value));
  });
}

template <orthornn::emulator::AtomicSigned T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return orthornn::emulator::update_atomically(address, [value](T old) { return value < old ? value : old; });
}

template <orthornn::emulator::AtomicSigned T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return orthornn::emulator::update_atomically(address, [value](T old) { return old < value ? value : old; });
}

template <orthornn::emulator::AtomicInteger T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return orthornn::emulator::update_atomically(address, [value](T old) { return old | value; });
}

template <orthornn::emulator::AtomicInteger T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return orthornn::emulator::update_atomically(address, [value](T old) { return old & value; });
}

template <class T>
requires orthornn::emulator::AtomicInteger<T> || std::is_same_v<T, float> T
atomicExch(T* address, std::type_identity_t<T> value) {
  return orthornn::emulator::update_atomically(address, [value](T) { return value; });
}

template <orthornn::emulator::AtomicInteger T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> desired) {
  return orthornn::emulator::update_atomically(address,
                                               [=](T old) { return old == expected ? desired : old; });
}
