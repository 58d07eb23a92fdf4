#pragma once

#include <string>
#include <vector>

#include "pages/plot.hpp"

namespace orthornn::program {

/// A table of texts; every row has a cell for each column.
struct HtmlTable {
  std::string caption;
  std::vector<std::string> columns;
  /// Leading columns that name a row; the others hold numbers and are aligned to the right.
  std::size_t naming_columns = 1;
  std::vector<std::vector<std::string>> rows;
};

/// An HTML page in one file: no network, no script. Its functions take text, not HTML.
class HtmlPage {
 public:
  explicit HtmlPage(const std::string& title);
  void heading(const std::string& text);
  void paragraph(const std::string& text);
  /// A line of text for a terminal, such as a command.
  void code(const std::string& text);
  /// Plots side by side if there is room, each with its title, legend and caption. A plot without data gets a
  /// note instead. Throws Error if gnuplot fails.
  void figures(const std::vector<Plot>& plots);
  void table(const HtmlTable& table);
  /// The whole page.
  std::string str() const;

 private:
  std::string figure(const Plot& plot);

  std::string title_;
  std::string body_;
  int figures_ = 0;
};

}  // namespace orthornn::program
