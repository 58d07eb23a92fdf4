// What the script of a page does in a browser.

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/browser.hpp"
#include "cli/run_program.hpp"
#include "support/occurrences.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;

namespace {

/// A page of two runs whose settings differ, and of two seeds.
std::string page_of_four_runs(const TemporaryFolder& folder) {
  const Arguments steps{"--steps", "40", "--log-every", "1", "--eval-every", "5"};
  check_success(run(train_copying(folder / "two", steps + Arguments{"--seeds", "2"})));
  check_success(run(train_copying(folder / "gru", steps + Arguments{"--cell", "gru"})));
  check_success(run(train_copying(folder / "expm", steps + Arguments{"--cell", "expm"})));
  check_success(run({"report", (folder / "two").string(), (folder / "gru").string(),
                     (folder / "expm").string(), "--out", (folder / "page.html").string()}));
  return content(folder / "page.html");
}

/// Before the script: what the program drew.
constexpr const char* note_images = R"(
const drawn = () => [...document.querySelectorAll('.plot')].map(plot => ({
  paths: [...plot.querySelectorAll('path:not(.raw)')].map(path => path.getAttribute('d')),
  texts: [...plot.querySelectorAll('text')].map(text => text.textContent + '@' + text.getAttribute('x') + ',' + text.getAttribute('y'))}));
const original = drawn();
)";

/// After it: acts as a reader, and says in #facts what was seen.
constexpr const char* act_as_reader = R"(
/* Numbers may differ by their last digit. */
const same = (a, b) => {
  const [x, y] = [a, b].map(drawing => JSON.stringify(drawing)), number = /-?\d+(\.\d+)?/g;
  const [m, n] = [x, y].map(text => text.match(number).map(Number));
  return x.replace(number, '') === y.replace(number, '') && m.every((value, i) => Math.abs(value - n[i]) < 0.11);
};
const facts = {}, [plot, beside] = document.querySelectorAll('.plot'), figure = plot.closest('figure');
const is = () => drawn()[0], first = is();
const send = (kind, x, y) => {
  const box = plot.getBoundingClientRect(), unit = box.width / 640;
  plot.dispatchEvent(new PointerEvent(kind, {clientX: box.left + x * unit, clientY: box.top + y * unit, bubbles: true}));
};
const press = key => plot.dispatchEvent(new KeyboardEvent('keydown', {key}));
const tip = figure.querySelector('.tip'), [logarithmic, whole] = figure.querySelectorAll('.tools input, .tools button');
const series = name => [...plot.querySelectorAll('.series')][[...figure.querySelectorAll('.legend li')].findIndex(li => li.textContent === name)];
facts.drawn_as_before = same(original, drawn());

/* The eleventh step of a line. */
const place = series('gru').querySelector('.line').getAttribute('d').split(/[ML]/)[11].split(',').map(Number);
send('pointermove', ...place);
facts.hover = tip.innerText.split('\n');
facts.tip_within = tip.offsetLeft >= 0 && tip.offsetLeft + tip.offsetWidth <= figure.clientWidth;
press('ArrowRight');
facts.next = tip.innerText.split('\n')[1];
send('pointerleave', 0, 0);
facts.left = tip.hidden;

const zoom = () => { send('pointerdown', 219.5, 100); send('pointermove', 490.5, 100); send('pointerup', 490.5, 100); };
zoom();
const labels = is().texts.slice(0, -2).map(text => text.split('@')).filter(([, at]) => at.endsWith(',365.0')).map(([text]) => Number(text));
facts.zoom = [Math.min(...labels), Math.max(...labels), whole.disabled];
plot.dispatchEvent(new MouseEvent('dblclick'));
facts.whole_again = same(first, is()) && whole.disabled;
press('End');
press('+');
facts.zoomed_by_key = !same(first, is());
press('Escape');
facts.whole_by_key = same(first, is());

logarithmic.click();
facts.linear = is().texts.some(text => text.startsWith('0@76.0')) && !same(first, is());
logarithmic.click();
facts.logarithmic_again = same(first, is());

const slider = document.querySelector('.tools input[type=range]');
const smooth = value => { slider.value = value; slider.dispatchEvent(new Event('input')); };
const line = name => series(name).querySelector('.line').getAttribute('d'), before = line('gru'), level = line('a guesser (copying, delay 3)');
smooth(0.9);
facts.smooth = line('gru') !== before && series('gru').querySelector('.raw').getAttribute('d') === before;
facts.level_as_before = line('a guesser (copying, delay 3)') === level;
const numbers = d => d.split(/[ML]/).slice(1).map(at => Number(at.split(',')[1]));
const roughness = d => numbers(d).reduce((sum, y, i, all) => sum + (i ? Math.abs(y - all[i - 1]) : 0), 0);
facts.smoother = roughness(line('gru')) < roughness(before);
smooth(0);
facts.rough_again = same(first, is());

const toggle = [...figure.querySelectorAll('.legend button')].find(button => button.textContent === 'gru');
toggle.click();
facts.hidden = [series('gru').style.display, toggle.getAttribute('aria-pressed'),
  [...beside.querySelectorAll('.series')].filter(g => g.style.display === 'none').length];
toggle.click();
facts.shown_again = same(first, is());

const sections = [...document.querySelectorAll('.curves section')], choice = document.querySelector('select');
const visible = () => sections.filter(section => section.offsetHeight > 0).map(section => section.querySelector('h2').textContent);
facts.first_choice = visible();
choice.selectedIndex = 1;
choice.onchange();
facts.second_choice = visible();
choice.selectedIndex = sections.length;
choice.onchange();
facts.all = visible().length === sections.length;

const table = document.querySelector('table'), head = [...table.tHead.rows[0].cells].findIndex(th => th.textContent === 'parameters');
const column = () => [...table.tBodies[0].rows].map(row => Number(row.cells[head].textContent));
const sorted = () => { table.tHead.rows[0].cells[head].querySelector('button').click(); return column(); };
facts.ascending = sorted();
facts.descending = sorted();
facts.sort = table.tHead.rows[0].cells[head].getAttribute('aria-sort');
const result = document.createElement('pre');
result.id = 'facts';
result.textContent = JSON.stringify(facts);
document.body.append(result);
)";

nlohmann::json facts_in(const std::string& dom) {
  const std::string start = "<pre id=\"facts\">";
  const std::size_t at = dom.find(start);
  REQUIRE(at != std::string::npos);
  return nlohmann::json::parse(dom.substr(at + start.size(), dom.find("</pre>", at) - at - start.size()));
}

}  // namespace

TEST_CASE("the script of a page draws its plots as the program did, and anew as its reader asks",
          "[cli][report][long]") {
  if (!has_browser()) {
    WARN("skipped: chromium is not installed");
    return;
  }
  const TemporaryFolder folder;
  write_text(folder / "driven.html", with_driver(page_of_four_runs(folder), act_as_reader, note_images));
  const nlohmann::json facts = facts_in(shown_by_browser(folder.path(), "driven.html"));
  CAPTURE(facts.dump(2));
  for (const char* fact :
       {"drawn_as_before", "tip_within", "left", "whole_again", "zoomed_by_key", "whole_by_key", "linear",
        "logarithmic_again", "smooth", "level_as_before", "smoother", "rough_again", "shown_again", "all"}) {
    CAPTURE(fact);
    CHECK(facts.at(fact) == true);
  }
  CHECK(facts["hover"][0] == "gru");
  CHECK(facts["hover"][1] == "training step: 11");
  CHECK_THAT(facts["hover"][2].get<std::string>(), Catch::Matchers::StartsWith("loss: "));
  CHECK(facts["next"] == "training step: 12");
  // A quarter to three quarters of an axis from 0 to 41.2.
  CHECK(facts["zoom"][0].get<double>() >= 10.3);
  CHECK(facts["zoom"][0].get<double>() < 16);
  CHECK(facts["zoom"][1].get<double>() <= 30.9);
  CHECK(facts["zoom"][2] == false);
  CHECK(facts["hidden"] == nlohmann::json({"none", "false", 1}));
  CHECK(facts["first_choice"] == nlohmann::json({"Training loss"}));
  CHECK(facts["second_choice"] == nlohmann::json({"Validation loss"}));
  const std::vector<double> ascending = facts["ascending"], descending = facts["descending"];
  CHECK(ascending.size() == 4);
  CHECK(ascending.front() < ascending.back());
  CHECK(std::is_sorted(ascending.begin(), ascending.end()));
  CHECK(std::is_sorted(descending.rbegin(), descending.rend()));
  CHECK(facts["sort"] == "descending");
}

TEST_CASE("a page is whole without its script", "[cli][report][long]") {
  if (!has_browser()) {
    WARN("skipped: chromium is not installed");
    return;
  }
  const TemporaryFolder folder;
  const std::string page = page_of_four_runs(folder);
  // A frame in which no script runs, and whose elements the page around it counts.
  write_text(folder / "frame.html",
             R"(<iframe src="page.html" sandbox="allow-same-origin" width=1280></iframe>
<script>onload = () => {
  const page = document.querySelector('iframe').contentDocument, count = what => page.querySelectorAll(what).length;
  const sections = [...page.querySelectorAll('section, .plot')];
  document.title = ['.plot', 'button', 'select'].map(count) + ' ' + sections.every(one => one.getBoundingClientRect().height > 99);
};</script>)");
  const long plots = occurrences(page, "<svg class=\"plot\"");
  CHECK(plots == 15);
  // The script alone would add buttons and a choice, and hide sections.
  CHECK_THAT(shown_by_browser(folder.path(), "frame.html", "--allow-file-access-from-files"),
             contains(fmt::format("<title>{},0,0 true</title>", plots)));
}

TEST_CASE("nothing on a page with all kinds of plots is wider than a telephone", "[cli][report][long]") {
  if (!has_browser()) {
    WARN("skipped: chromium is not installed");
    return;
  }
  const TemporaryFolder folder;
  write_text(folder / "page.html", with_driver(page_of_four_runs(folder), R"(
const page = document.documentElement, choice = document.querySelector('select');
choice.selectedIndex = choice.options.length - 1;
choice.onchange();
const wide = [...document.querySelectorAll('body *')].filter(element => !element.closest('.wide, .plot') &&
    element.getBoundingClientRect().right > page.clientWidth + 0.5);
/* Texts of plots are within their images, and those of an axis do not touch. */
const cut = [...document.querySelectorAll('.plot text')].filter(text => {
  const [own, all] = [text, text.closest('.plot')].map(element => element.getBoundingClientRect());
  return own.left < all.left - 0.5 || own.right > all.right + 0.5 || own.bottom > all.bottom + 0.5;
});
parent.postMessage('width ' + page.clientWidth + ', wide ' + wide.length + ', cut ' + cut.length, '*');)"));
  write_text(folder / "frame.html",
             "<script>onmessage = event => document.title = event.data</script><iframe src=\"page.html\" "
             "height=900 width=420></iframe>");
  CHECK_THAT(shown_by_browser(folder.path(), "frame.html"),
             contains("<title>width 420, wide 0, cut 0</title>") ||
                 contains("<title>width 405, wide 0, cut 0</title>"));
}
