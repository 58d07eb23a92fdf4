#pragma once
// Pages as a browser shows them, with scripts that act as a reader would.

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/text_file.hpp"

namespace orthornn::testing {

inline bool has_browser() { return std::system("command -v chromium >/dev/null") == 0; }

/// The page with a script at its end, after its own, and perhaps one at its beginning.
inline std::string with_driver(std::string page, const std::string& driver, const std::string& before = "") {
  const auto insert = [&](std::size_t at, const std::string& script) {
    page.insert(at, "<script>" + script + "</script>");
  };
  insert(page.rfind("</body>"), driver);
  if (!before.empty()) insert(page.find("<script>"), before);
  return page;
}

/// The page in the folder as the browser has it after some time. `options` are for the browser.
inline std::string shown_by_browser(const std::filesystem::path& folder, const std::string& page,
                                    const std::string& options = "") {
  const std::string dom = folder / "dom";
  const std::string command =
      "chromium --headless --no-sandbox --disable-gpu --window-size=1400,1000 --virtual-time-budget=5000 " +
      options + " --user-data-dir='" + (folder / "profile").string() + "' --dump-dom 'file://" +
      (folder / page).string() + "' >'" + dom + "' 2>/dev/null";
  CHECK(std::system(command.c_str()) == 0);
  return content(dom);
}

}  // namespace orthornn::testing
