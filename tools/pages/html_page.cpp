#include "pages/html_page.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "orthornn/version.hpp"
#include "pages/html_text.hpp"
#include "pages/page_files.hpp"

namespace orthornn::program {
namespace {

// By these a page is known again.
constexpr const char* page_start = "<!doctype html>";
constexpr const char* page_maker = "<footer>Made by orthornn ";

/// A table in a box that scrolls. `start` follows "<table"; the cells of the head and the rows are HTML.
std::string scrolling_table(const std::string& start, const std::string& head, const std::string& rows) {
  return fmt::format(
      "<div "
      "class=\"wide\">\n<table{}\n<thead>\n<tr>{}</tr>\n</thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n",
      start, head, rows);
}

std::string map_cell(float weight, const std::string* text) {
  if (text == nullptr)
    return fmt::format("<td title=\"{0:.2f}\"><i style=\"opacity:{0:.2f}\"></i></td>", weight);
  // Paler, so that the text can be read on it.
  return fmt::format("<td class=\"said\" title=\"{:.2f}\"><i style=\"opacity:{:.2f}\"></i><b>{}</b></td>",
                     weight, 0.6 * weight, html_text(*text));
}

std::string map_figure(const HtmlMap& map) {
  std::string head = "<td></td>", rows;
  for (const std::string& column : map.columns)
    head += fmt::format("<th scope=\"col\"><span>{}</span></th>", html_text(column));
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    rows += fmt::format("<tr><th scope=\"row\">{}</th>", html_text(map.rows[i]));
    for (std::size_t j = 0; j < map.weights[i].size(); ++j)
      rows += map_cell(map.weights[i][j], map.texts.empty() ? nullptr : &map.texts[i][j]);
    rows += "</tr>\n";
  }
  return html_figure(map.title, scrolling_table(" class=\"map\">", head, rows), map.caption);
}

/// Bytes as text (RFC 4648).
std::string base64(const std::string& bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t j = i; j < i + 3; ++j)
      three = three << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    for (int shift = 18; shift >= 0; shift -= 6) text += digits[three >> shift & 63U];
  }
  for (std::size_t left = bytes.size() % 3; left > 0 && left < 3; ++left) text[text.size() - 3 + left] = '=';
  return text;
}

}  // namespace

HtmlPage::HtmlPage(const std::string& title) : title_(html_text(title)) {}

void HtmlPage::add(const char* tag, const std::string& text) {
  body_ += fmt::format("<{0}>{1}</{0}>\n", tag, html_text(text));
}

std::string HtmlPage::figures_text(const std::vector<Plot>& plots) {
  std::string text = "<div class=\"figures\">\n";
  for (const Plot& plot : plots) text += figure(plot);
  return text + "</div>\n";
}

void HtmlPage::curves(const std::vector<HtmlCurves>& quantities) {
  body_ += "<div class=\"curves\">\n";
  for (const HtmlCurves& quantity : quantities) {
    body_ += fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", html_text(quantity.name),
                         figures_text(quantity.plots));
  }
  body_ += "</div>\n";
}

void HtmlPage::maps(const std::vector<HtmlMap>& maps) {
  body_ += "<div class=\"figures\">\n";
  for (const HtmlMap& map : maps) body_ += map_figure(map);
  body_ += "</div>\n";
}

void HtmlPage::pictures(const std::vector<Picture>& pictures) {
  for (const Picture& picture : pictures) {
    const std::string image = fmt::format(
        "<div class=\"wide\">\n<img class=\"frames\" alt=\"{}\" width=\"{}\" height=\"{}\" "
        "src=\"data:image/png;base64,{}\">\n</div>\n",
        html_text(picture.caption), picture.width, picture.height, base64(picture.png));
    body_ += html_figure(picture.title, image, picture.caption);
  }
}

void HtmlPage::table(const HtmlTable& table) {
  const auto name = [&](std::size_t column) {
    return column < table.naming_columns ? " class=\"name\"" : "";
  };
  std::string head, rows;
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    head += fmt::format("<th scope=\"col\"{}>{}</th>", name(i), html_text(table.columns[i]));
  for (const std::vector<std::string>& row : table.rows) {
    rows += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      rows += fmt::format("<{0}{1}{2}>{3}</{0}>", i == 0 ? "th" : "td", i == 0 ? " scope=\"row\"" : "",
                          name(i), html_text(row[i]));
    }
    rows += "</tr>\n";
  }
  body_ += scrolling_table(fmt::format(">\n<caption>{}</caption>", html_text(table.caption)), head, rows);
}

std::string HtmlPage::str() const {
  return fmt::format(
      "{4}\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}"
      "{5}{3}.</footer>\n<script>{6}</script>\n</body>\n</html>\n",
      title_, page_style, body_, version(), page_start, page_maker, page_script);
}

bool is_page_of_orthornn(std::string_view text) {
  // A page has one footer, at its end: what a title or a table holds has no tags.
  return text.starts_with(page_start) && text.rfind(page_maker) != std::string_view::npos;
}

}  // namespace orthornn::program
