#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>

#include "fuzz/fuzz_target.hpp"

namespace orthornn::fuzz {

/// The input of a target, read as the steps of a program. Behind its end are zeros.
class EditProgram {
 public:
  explicit EditProgram(Bytes bytes) : bytes_(bytes) {}

  bool ended() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  bool flag() { return (byte() & 1) != 0; }
  /// 0 .. count - 1, count at most 256
  std::size_t below(std::size_t count) { return byte() % count; }
  std::uint64_t number(int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= static_cast<std::uint64_t>(byte()) << 8 * i;
    return value;
  }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }
  template <class Container>
  const auto& element_of(const Container& container) {
    return container[number(2) % container.size()];
  }
  /// A size as headers may claim it, small ones more often.
  std::uint64_t size() {
    const std::uint8_t kind = byte();
    if (kind < 128) return kind % 12;
    constexpr std::uint64_t large[] = {16,
                                       64,
                                       255,
                                       256,
                                       511,
                                       784,
                                       1000,
                                       4096,
                                       65535,
                                       65536,
                                       200000,
                                       1U << 20,
                                       1U << 24,
                                       1U << 28,
                                       (1U << 31) - 1,
                                       1U << 31,
                                       0xffffffffU,
                                       1ULL << 32,
                                       1ULL << 40,
                                       1ULL << 48,
                                       (1ULL << 61) - 1,
                                       1ULL << 61,
                                       1ULL << 62,
                                       (1ULL << 62) - 20,
                                       (1ULL << 63) - 1,
                                       1ULL << 63,
                                       ~0ULL,
                                       0x4000000000000000ULL / 10};
    return kind < 240 ? large[kind % std::size(large)] : number(8);
  }
  /// At most `longest` bytes as they are.
  Bytes some(std::size_t longest) {
    const Bytes taken = bytes_.first(std::min(longest, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  Bytes rest() { return some(bytes_.size()); }

 private:
  Bytes bytes_;
};

}  // namespace orthornn::fuzz
