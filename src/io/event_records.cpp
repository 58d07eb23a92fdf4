#include "io/event_records.hpp"

#include <bit>
#include <concepts>

namespace orthornn {
namespace {

// Kinds of fields in a protocol buffer.
enum WireType : std::uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// Numbers of fields.
enum EventField : std::uint64_t {
  wall_time = 1,
  event_step = 2,
  file_version = 3,
  summary = 5,
  session_log = 7
};
enum SummaryField : std::uint64_t { summary_value = 1 };
enum ValueField : std::uint64_t { value_tag = 1, simple_value = 2 };
enum SessionLogField : std::uint64_t { session_status = 1 };
constexpr std::uint64_t session_start = 1;

std::string little_endian(std::unsigned_integral auto number) {
  std::string text;
  for (std::size_t byte = 0; byte < sizeof(number); ++byte)
    text += static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * byte) & 0xff);
  return text;
}

std::string varint_of(std::uint64_t number) {
  std::string text;
  for (; number >= 0x80; number >>= 7) text += static_cast<char>((number & 0x7f) | 0x80);
  return text + static_cast<char>(number);
}

std::string key(std::uint64_t field, WireType type) { return varint_of(field << 3 | type); }

std::string varint_field(std::uint64_t field, std::uint64_t number) {
  return key(field, varint) + varint_of(number);
}

std::string bytes_field(std::uint64_t field, std::string_view text) {
  return key(field, bytes) + varint_of(text.size()) + std::string(text);
}

std::string checksum_of(std::string_view text) {
  // Masked, as a checksum of bytes that hold checksums is weak.
  return little_endian(std::rotr(crc32c(text), 15) + 0xa282ead8U);
}

/// A record of an Event with these fields beside its time.
std::string record(double time, const std::string& fields) {
  const std::string event =
      key(wall_time, fixed64) + little_endian(std::bit_cast<std::uint64_t>(time)) + fields;
  const std::string length = little_endian(std::uint64_t{event.size()});
  return length + checksum_of(length) + event + checksum_of(event);
}

std::string step_field(std::int64_t step) {
  return varint_field(event_step, static_cast<std::uint64_t>(step));
}

}  // namespace

std::uint32_t crc32c(std::string_view text) {
  constexpr std::uint32_t reversed_polynomial = 0x82f63b78;
  std::uint32_t rest = ~0U;
  for (const char c : text) {
    rest ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? reversed_polynomial : 0);
  }
  return ~rest;
}

std::string version_record(double time) { return record(time, bytes_field(file_version, "brain.Event:2")); }

std::string start_record(double time, std::int64_t step) {
  return record(time,
                step_field(step) + bytes_field(session_log, varint_field(session_status, session_start)));
}

std::string scalars_record(double time, std::int64_t step, std::span<const EventScalar> scalars) {
  std::string values;
  for (const EventScalar& scalar : scalars) {
    values += bytes_field(summary_value, bytes_field(value_tag, scalar.tag) + key(simple_value, fixed32) +
                                             little_endian(std::bit_cast<std::uint32_t>(scalar.value)));
  }
  return record(time, step_field(step) + bytes_field(summary, values));
}

}  // namespace orthornn
