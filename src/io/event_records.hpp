#pragma once
// Event files of TensorBoard: records of protocol buffers, `Event` of tensorflow/core/util/event.proto, each
// between its length and checksums as tensorflow/core/lib/io/record_writer.h says.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace orthornn {

/// CRC-32C (Castagnoli) of these bytes.
std::uint32_t crc32c(std::string_view bytes);

/// A number that is drawn under its tag.
struct EventScalar {
  std::string tag;
  float value;
};

// Each returns the bytes of a record. `time` is in seconds since 1970.

/// The first record of every file.
std::string version_record(double time);
/// Says that the program begins, or begins again, before this step: readers drop what earlier files have from
/// this step on.
std::string start_record(double time, std::int64_t step);
/// Numbers of a step.
std::string scalars_record(double time, std::int64_t step, std::span<const EventScalar> scalars);

}  // namespace orthornn
