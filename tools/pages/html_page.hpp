#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "pages/plot.hpp"
#include "support/training_run.hpp"

namespace orthornn::program {

/// A table of texts; every row has a cell for each column.
struct HtmlTable {
  std::string caption;
  std::vector<std::string> columns;
  /// Leading columns that name a row; the others hold numbers and are aligned to the right.
  std::size_t naming_columns = 1;
  std::vector<std::vector<std::string>> rows = {};
};

/// Weights from 0 to 1 as a heat map.
struct HtmlMap {
  std::string title;
  std::string caption;
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  /// [rows][columns]
  std::vector<std::vector<float>> weights;
  /// What the cells say, [rows][columns]; empty where they are colours alone.
  std::vector<std::vector<std::string>> texts = {};
};

/// Plots of one quantity, under its name.
struct HtmlCurves {
  std::string name;
  std::vector<Plot> plots;
};

/// An HTML page in one file, without network. Its functions take text, not HTML. It is whole without its
/// script, by which plots answer the pointer and tables are sorted (page.js).
class HtmlPage {
 public:
  explicit HtmlPage(const std::string& title);
  void heading(const std::string& text) { add("h2", text); }
  void subheading(const std::string& text) { add("h3", text); }
  void paragraph(const std::string& text) { add("p", text); }
  /// A line of text for a terminal, such as a command.
  void code(const std::string& text) { add("pre", text); }
  /// Plots side by side if there is room.
  void figures(const std::vector<Plot>& plots) { body_ += figures_text(plots); }
  /// A section of each quantity; with the script the reader chooses one of them.
  void curves(const std::vector<HtmlCurves>& quantities);
  void table(const HtmlTable& table);
  /// Heat maps side by side if there is room.
  void maps(const std::vector<HtmlMap>& maps);
  /// Pictures below one another, whose bytes the page holds.
  void pictures(const std::vector<Picture>& pictures);
  /// The whole page.
  std::string str() const;

 private:
  void add(const char* tag, const std::string& text);
  static std::string figures_text(const std::vector<Plot>& plots);

  std::string title_;
  std::string body_;
};

/// Whether the text is a page that some version of orthornn made.
bool is_page_of_orthornn(std::string_view text);

}  // namespace orthornn::program
