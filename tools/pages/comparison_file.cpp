#include "pages/comparison_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "orthornn/core/error.hpp"
#include "pages/comparison_page.hpp"

namespace orthornn::program {
namespace {

/// Levels of the JSON; comparisons have four.
constexpr int deepest_nesting = 100;

}  // namespace

std::string page_of_comparison(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw FileError(fmt::format("cannot read '{}': {}", file.string(), std::strerror(errno)));
  const auto refusal = [&](const std::string& why) {
    return FileError(fmt::format("'{}' is not what orthornn bench compare writes: {}", file.string(), why));
  };
  // The parser copies what it has read, one call within another for each level.
  const auto check_depth = [&](int depth, nlohmann::ordered_json::parse_event_t, const auto&) {
    if (depth > deepest_nesting) throw refusal("it is nested too deeply");
    return true;
  };
  const auto comparison = nlohmann::ordered_json::parse(stream, check_depth, false);
  if (comparison.is_discarded()) throw refusal("it is no JSON, or not all of it");
  try {
    return comparison_page(comparison);
  } catch (const ValueError& error) {
    throw refusal(error.what());
  }
}

}  // namespace orthornn::program
