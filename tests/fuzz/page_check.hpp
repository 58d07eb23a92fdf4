#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "fuzz/fuzz_target.hpp"

namespace orthornn::fuzz {

/// Ends the process for a page that is no UTF-8, or whose plots are drawn at something else than numbers.
inline void check_page(const std::string& page) {
  nlohmann::json(page).dump();  // throws unless the page is UTF-8
  for (std::size_t at = 0; (at = page.find(" d=\"", at)) != std::string::npos;) {
    at += 4;
    const std::string path = page.substr(at, page.find('"', at) - at);
    // The words for other numbers, nan and inf, have a letter that no path has.
    require(path.find('n') == std::string::npos, "a line is drawn at no number: " + path);
  }
}

}  // namespace orthornn::fuzz
