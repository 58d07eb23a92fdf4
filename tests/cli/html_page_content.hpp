#pragma once
// What the pages of `report` and `bench compare` hold.

#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "cli/run_program.hpp"
#include "support/occurrences.hpp"

namespace orthornn::testing {

/// Says so, for CTest, where the plots cannot be drawn.
inline bool gnuplot_is_missing() {
  const bool missing = std::system("command -v gnuplot >/dev/null") != 0;
  if (missing) WARN("skipped: gnuplot is not installed");
  return missing;
}

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
  for (const char* outside :
       {"http", "src=", "url(", "@import", "<link", "<script", "<iframe", "<object", "//"}) {
    CAPTURE(outside);
    CHECK(occurrences(page, outside) == 0);
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
  // Every colour follows the page's: none of gnuplot's own is left.
  CHECK(occurrences(page, "rgb(") == 0);
  CHECK(occurrences(page, "role=\"img\" aria-label=\"") == plots_in(page));
  CHECK(occurrences(page, "<figcaption>") >= plots_in(page));
}

/// Variables under which the program finds no gnuplot: PATH is the empty folder `nothing`.
inline RunSettings without_gnuplot(const std::filesystem::path& nothing) {
  std::filesystem::create_directories(nothing);
  return {.variables = {{"PATH", nothing.string()}}};
}

/// ... and finds this one, a shell script.
inline RunSettings with_impostor_gnuplot(const std::filesystem::path& folder, const std::string& script) {
  std::filesystem::create_directories(folder);
  const std::filesystem::path file = folder / "gnuplot";
  std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return {.variables = {{"PATH", folder.string()}}};
}

}  // namespace orthornn::testing
