#pragma once
// Reads event files of TensorBoard, as tensorflow/core/lib/io/record_reader.cc and event.proto describe them.

#include <bit>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "io/event_records.hpp"

namespace orthornn::testing {

/// An Event; a member that it does not have is empty.
struct ReadEvent {
  double time = 0;
  std::int64_t step = 0;
  std::string version = {};
  bool is_start = false;
  std::map<std::string, float> scalars = {};
};

namespace detail {

/// The number of `bytes` bytes at the beginning of the text, which loses them.
inline std::uint64_t take_fixed(std::string_view& text, std::size_t bytes) {
  if (text.size() < bytes) throw std::runtime_error("a record ends within a number");
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    number |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  text.remove_prefix(bytes);
  return number;
}

inline std::uint64_t take_varint(std::string_view& text) {
  std::uint64_t number = 0;
  for (int shift = 0;; shift += 7) {
    const std::uint64_t byte = take_fixed(text, 1);
    number |= (byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
}

inline std::string_view take_text(std::string_view& text, std::uint64_t size) {
  if (text.size() < size) throw std::runtime_error("a record ends within a text");
  const std::string_view taken = text.substr(0, size);
  text.remove_prefix(size);
  return taken;
}

/// Calls visit(field, number, text) for the fields of a message.
template <class Visit>
void each_field(std::string_view message, const Visit& visit) {
  while (!message.empty()) {
    const std::uint64_t key = take_varint(message);
    std::uint64_t number = 0;
    std::string_view text;
    switch (key & 7) {
      case 0:
        number = take_varint(message);
        break;
      case 1:
        number = take_fixed(message, 8);
        break;
      case 2:
        text = take_text(message, take_varint(message));
        break;
      case 5:
        number = take_fixed(message, 4);
        break;
      default:
        throw std::runtime_error("a field of an unknown kind");
    }
    visit(key >> 3, number, text);
  }
}

inline void check_sum(std::string_view bytes, std::uint64_t masked) {
  const std::uint32_t sum = crc32c(bytes);
  if (((sum >> 15 | sum << 17) + 0xa282ead8U) != masked) throw std::runtime_error("a checksum is wrong");
}

inline ReadEvent read_event(std::string_view message) {
  ReadEvent event;
  each_field(message, [&](std::uint64_t field, std::uint64_t number, std::string_view text) {
    if (field == 1) event.time = std::bit_cast<double>(number);
    if (field == 2) event.step = static_cast<std::int64_t>(number);
    if (field == 3) event.version = text;
    if (field == 5) {
      each_field(text, [&](std::uint64_t, std::uint64_t, std::string_view value) {
        std::string tag;
        float scalar = 0;
        each_field(value, [&](std::uint64_t part, std::uint64_t bits, std::string_view name) {
          if (part == 1) tag = name;
          if (part == 2) scalar = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
        });
        event.scalars[tag] = scalar;
      });
    }
    if (field == 7) {
      each_field(text, [&](std::uint64_t part, std::uint64_t status, std::string_view) {
        event.is_start = part == 1 && status == 1;
      });
    }
  });
  return event;
}

}  // namespace detail

/// All events of a file's content. Throws std::runtime_error for what is no such file.
inline std::vector<ReadEvent> read_events(std::string_view content) {
  std::vector<ReadEvent> events;
  while (!content.empty()) {
    const std::string_view length_bytes = content.substr(0, 8);
    const std::uint64_t length = detail::take_fixed(content, 8);
    detail::check_sum(length_bytes, detail::take_fixed(content, 4));
    const std::string_view message = detail::take_text(content, length);
    detail::check_sum(message, detail::take_fixed(content, 4));
    events.push_back(detail::read_event(message));
  }
  return events;
}

}  // namespace orthornn::testing
