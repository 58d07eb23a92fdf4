#include "tasks/data_part.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orthornn/core/error.hpp"

namespace orthornn::data_part {

std::string checksum_in(const char* task, const std::vector<TaskPart>& parts, const char* part_name) {
  const auto part = std::ranges::find(parts, std::string(part_name), &TaskPart::name);
  if (part == parts.end()) throw ValueError(fmt::format("task {}: there is no part '{}'", task, part_name));
  constexpr std::size_t longest = 100;
  const std::string& checksum = part->bytes;
  if (checksum.empty() || checksum.size() > longest ||
      !std::ranges::all_of(checksum, [](char c) { return c >= ' ' && c <= '~'; })) {
    throw ValueError(fmt::format("task {}: the part '{}' has {} bytes; expected 1 to {} of printable ASCII",
                                 task, part_name, checksum.size(), longest));
  }
  return checksum;
}

}  // namespace orthornn::data_part
