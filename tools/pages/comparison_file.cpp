#include "pages/comparison_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "core/checked_json.hpp"
#include "orthornn/core/error.hpp"
#include "pages/comparison_page.hpp"

namespace orthornn::program {

std::string page_of_comparison(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw FileError(fmt::format("cannot read '{}': {}", file.string(), std::strerror(errno)));
  const auto refusal = [&](const std::string& why) {
    return FileError(fmt::format("'{}' is not what orthornn bench compare writes: {}", file.string(), why));
  };
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  try {
    return comparison_page(parse_json(text));
  } catch (const ValueError& error) {
    throw refusal(error.what());
  }
}

}  // namespace orthornn::program
