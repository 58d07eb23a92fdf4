#include "pages/html_page.hpp"

#include <fmt/format.h>

#include "orthornn/version.hpp"
#include "pages/html_text.hpp"

namespace orthornn::program {
namespace {

// By these a page is known again.
constexpr const char* page_start = "<!doctype html>";
constexpr const char* page_maker = "<footer>Made by orthornn ";

// Colours of series: Okabe and Ito, "Color universal design" (2008), with light colours darkened on white and
// dark colours lightened on black.
constexpr const char* style_sheet = R"(
:root {
  color-scheme: light dark;
  --page: #ffffff; --card: #fafbfc; --line: #d5dbe1; --text: #1c2127; --muted: #59636e;
  --colour-0: #7d8790; --colour-1: var(--text); --colour-2: #e4e8ec; --colour-3: #6b7580;
  --colour-4: #0072b2; --colour-5: #d55e00; --colour-6: #b4558a; --colour-7: #00875f;
  --colour-8: #c98600; --colour-9: #3a3f45; --colour-10: #2f9bd6; --colour-11: #857600;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --card: #1a1e22; --line: #343b42; --text: #e6eaee; --muted: #9aa5b0;
    --colour-0: #78838d; --colour-2: #2b3137; --colour-3: #a3adb7;
    --colour-4: #4aa8e8; --colour-5: #ff8a3d; --colour-6: #e594c0; --colour-7: #2ec997;
    --colour-8: #f2b632; --colour-9: #d7dce1; --colour-10: #9ad7fb; --colour-11: #e8dc4a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 78rem; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  overflow-wrap: break-word;
}
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.75rem; }
p { max-width: 50rem; margin: 0.5rem 0; }
pre {
  padding: 0.6rem 0.8rem; border: 1px solid var(--line); border-radius: 6px; background: var(--card);
  font: 0.85rem/1.5 ui-monospace, "DejaVu Sans Mono", monospace; overflow-x: auto;
}
.figures { display: grid; margin-top: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 1.25rem; }
figure { margin: 0; padding: 1rem; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
figure h3 { font-size: 1rem; margin: 0 0 0.5rem; }
figcaption { margin-top: 0.5rem; font-size: 0.85rem; color: var(--muted); }
.plot { display: block; width: 100%; height: auto; }
.plot text { font: 14px sans-serif; fill: var(--colour-1); }
.plot path, .sample path { fill: none; stroke: currentColor; stroke-width: 2; }
.plot .grid { stroke: var(--colour-2); stroke-width: 1; }
.plot .axes { stroke: var(--colour-0); stroke-width: 1; }
.plot .mark, .sample .mark { fill: currentColor; stroke: none; }
.legend { display: flex; flex-wrap: wrap; gap: 0.15rem 1.1rem; margin: 0.25rem 0 0; padding: 0; list-style: none; font-size: 0.85rem; }
.legend li { display: flex; align-items: center; gap: 0.4rem; overflow-wrap: anywhere; }
.sample { flex: none; width: 36px; height: 14px; }
/* A table that is wider than the page scrolls in its box, and a shadow shows on which side there is more. */
.wide {
  --behind: var(--page); overflow-x: auto; margin: 1rem 0;
  background:
    linear-gradient(to right, var(--behind) 50%, transparent) left / 3rem 100% no-repeat local,
    linear-gradient(to left, var(--behind) 50%, transparent) right / 3rem 100% no-repeat local,
    linear-gradient(to right, var(--line), transparent) left / 0.9rem 100% no-repeat scroll,
    linear-gradient(to left, var(--line), transparent) right / 0.9rem 100% no-repeat scroll;
}
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
caption { max-width: calc(100vw - 3.5rem); text-align: left; padding: 0 0 0.4rem; color: var(--muted); }
th, td { padding: 0.3rem 0.55rem; border-bottom: 1px solid var(--line); text-align: right; }
thead th { border-bottom: 2px solid var(--colour-0); }
tbody th { font-weight: normal; }
.name { text-align: left; }
figure .wide { --behind: var(--card); }
tbody th.name { overflow-wrap: anywhere; min-width: 8rem; }
tbody tr:hover { background: var(--card); }
h3 { font-size: 1rem; margin: 1.5rem 0 0.5rem; }
.map { border-collapse: separate; border-spacing: 1px; }
.map th, .map td { padding: 0.1rem 0.3rem; border: 0; white-space: nowrap; }
.map thead th { padding: 0.3rem 0; vertical-align: bottom; text-align: center; font-weight: normal; }
.map thead span { display: inline-block; writing-mode: vertical-rl; transform: rotate(180deg); }
.map tbody td { width: 1.5rem; min-width: 1.5rem; padding: 0; background: var(--page); }
.map i { display: block; height: 1.5rem; background: var(--colour-4); }
footer { margin-top: 3rem; font-size: 0.85rem; color: var(--muted); }
@media print { figure, tr { break-inside: avoid; } .wide { overflow: visible; } }
)";

/// A table in a box that scrolls. `start` follows "<table"; the cells of the head and the rows are HTML.
std::string scrolling_table(const std::string& start, const std::string& head, const std::string& rows) {
  return fmt::format(
      "<div "
      "class=\"wide\">\n<table{}\n<thead>\n<tr>{}</tr>\n</thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n",
      start, head, rows);
}

std::string map_figure(const HtmlMap& map) {
  std::string head = "<td></td>", rows;
  for (const std::string& column : map.columns)
    head += fmt::format("<th scope=\"col\"><span>{}</span></th>", html_text(column));
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    rows += fmt::format("<tr><th scope=\"row\">{}</th>", html_text(map.rows[i]));
    for (const float weight : map.weights[i])
      rows += fmt::format("<td title=\"{0:.2f}\"><i style=\"opacity:{0:.2f}\"></i></td>", weight);
    rows += "</tr>\n";
  }
  return html_figure(map.title, scrolling_table(" class=\"map\">", head, rows), map.caption);
}

}  // namespace

HtmlPage::HtmlPage(const std::string& title) : title_(html_text(title)) {}

void HtmlPage::add(const char* tag, const std::string& text) {
  body_ += fmt::format("<{0}>{1}</{0}>\n", tag, html_text(text));
}

void HtmlPage::figures(const std::vector<Plot>& plots) {
  body_ += "<div class=\"figures\">\n";
  for (const Plot& plot : plots) body_ += figure(plot);
  body_ += "</div>\n";
}

void HtmlPage::maps(const std::vector<HtmlMap>& maps) {
  body_ += "<div class=\"figures\">\n";
  for (const HtmlMap& map : maps) body_ += map_figure(map);
  body_ += "</div>\n";
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
      "{5}{3}.</footer>\n</body>\n</html>\n",
      title_, style_sheet, body_, version(), page_start, page_maker);
}

bool is_page_of_orthornn(std::string_view text) {
  // A page has one footer, its last element: what a title or a table holds has no tags.
  return text.starts_with(page_start) && text.rfind(page_maker) != std::string_view::npos;
}

}  // namespace orthornn::program
