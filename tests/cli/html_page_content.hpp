#pragma once
// What the pages of `report` and `bench compare` hold.

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "cli/run_program.hpp"
#include "support/occurrences.hpp"

namespace orthornn::testing {

inline long plots_in(const std::string& page) { return occurrences(page, "<svg class=\"plot\""); }
/// In how many plots a line says that this is its name.
inline long lines_named(const std::string& page, const std::string& name) {
  return occurrences(page, "<title>" + name + "</title>") -
         occurrences(page, "<title>" + name + "</title>\n<style>");
}

/// It is one whole HTML page that refers to nothing outside, and whose references within lead to one place.
inline void check_self_contained(const std::string& page) {
  CHECK_THAT(page, Catch::Matchers::StartsWith("<!doctype html>\n"));
  CHECK_THAT(page, Catch::Matchers::EndsWith("</html>\n"));
  CHECK_NOTHROW(nlohmann::json(page).dump());  // which throws where the text is no UTF-8
  CHECK(std::none_of(page.begin(), page.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
  }));
  // One script, which is a part of the page and asks for nothing.
  CHECK(occurrences(page, "<script") == occurrences(page, "<script>\n"));
  CHECK(occurrences(page, "<script") == 1);
  // Pictures, whose bytes the page holds; their text may have any of what refers to something outside.
  static const std::regex picture(R"(src="data:image/png;base64,[A-Za-z0-9+/=]*")");
  const std::string without_pictures = std::regex_replace(page, picture, "");
  for (const char* outside : {"http", "src=", "url(", "@import", "<link", "<iframe", "<object", "//",
                              "fetch(", "import(", "eval("}) {
    CAPTURE(outside);
    CHECK(occurrences(without_pictures, outside) == 0);
  }
  static const std::regex identity(R"( id=['"]([^'"]*)['"])"), reference(R"(href=['"]([^'"]*)['"])");
  std::set<std::string> ids;
  for (std::sregex_iterator match(page.begin(), page.end(), identity), end; match != end; ++match) {
    CAPTURE((*match)[1].str());
    CHECK(ids.insert((*match)[1]).second);
  }
  for (std::sregex_iterator match(page.begin(), page.end(), reference), end; match != end; ++match) {
    CAPTURE((*match)[1].str());
    CHECK_THAT((*match)[1].str(), Catch::Matchers::StartsWith("#"));
    CHECK(ids.contains((*match)[1].str().substr(1)));
  }
  CHECK(occurrences(page, "<svg") == occurrences(page, "</svg>"));
  // Lines are drawn at numbers: the words for others, nan and inf, have a letter that no path has.
  for (std::size_t at = 0; (at = page.find(" d=\"", at)) != std::string::npos;) {
    at += 4;
    CHECK(page.substr(at, page.find('"', at) - at).find('n') == std::string::npos);
  }
  // Every colour follows the page's.
  CHECK(occurrences(page, "rgb(") == 0);
  CHECK(occurrences(page, "role=\"img\" aria-label=\"") == plots_in(page));
  CHECK(occurrences(page, "<figcaption>") >= plots_in(page));
}

/// Variables under which the program finds no other: PATH is the empty folder `nothing`.
inline RunSettings without_programs(const std::filesystem::path& nothing) {
  std::filesystem::create_directories(nothing);
  return {.variables = {{"PATH", nothing.string()}}};
}

}  // namespace orthornn::testing
