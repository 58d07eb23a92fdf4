// orthornn report: the attention of translations.

#include "cli/html_page_content.hpp"
#include "cli/run_program.hpp"
#include "support/occurrences.hpp"
#include "support/sentence_pairs.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// A training of two steps, whose data are gone.
fs::path train(const TemporaryFolder& folder, const std::string& name, const Arguments& more = {}) {
  const fs::path data = write_text(folder / "pairs.txt", number_pairs(100)), out = folder / name;
  check_success(run(Arguments{"train", "translate", "--data", data.string(), "--hidden", "8", "--batch", "16",
                              "--steps", "2", "--out", out.string()} +
                    more));
  fs::remove(data);
  return out;
}

long maps_in(const std::string& page) { return occurrences(page, "<table class=\"map\">"); }

/// The part of a page that begins with these words and ends with that map.
std::string map_after(const std::string& page, const std::string& words) {
  const std::size_t start = page.find(words);
  REQUIRE(start != std::string::npos);
  return page.substr(start, page.find("</figure>", start) - start);
}

}  // namespace

TEST_CASE("report shows the attention of sentences that the run keeps, without its data",
          "[cli][report][translate][long]") {
  const TemporaryFolder folder;
  const fs::path lstm = train(folder, "lstm", {"--cell", "lstm"}), cwy = train(folder, "cwy");
  // Five pairs of the test set, which is that of both.
  const std::string sentences = content(lstm / "sentences.tsv");
  CHECK(lines(sentences) == 5);
  CHECK(content(cwy / "sentences.tsv") == sentences);
  const fs::path out = folder / "page.html";
  check_success(run({"report", lstm.string(), cwy.string(), "--out", out.string()}));
  const std::string page = content(out);
  check_self_contained(page);
  CHECK(maps_in(page) == 10);
  CHECK(occurrences(page, "<h3>lstm</h3>") == 5);
  const std::string pair = sentences.substr(0, sentences.find('\n'));
  const std::string source = pair.substr(0, pair.find('\t'));
  const std::string map = map_after(page, "<h3>" + source + "</h3>");
  CHECK_THAT(map, contains("Reference: " + pair.substr(pair.find('\t') + 1)));
  // The source's words and the end in the columns; a weight for each in every row.
  const long columns = occurrences(map, "<th scope=\"col\">");
  CHECK(columns == occurrences(source, " ") + 2);
  CHECK_THAT(map, contains("<span>&lt;/s&gt;</span>"));
  CHECK(occurrences(map, "<td title=\"") == columns * occurrences(map, "<th scope=\"row\">"));

  // A page of other trainings has none.
  check_success(run(train_copying(folder / "copying", {"--steps", "2", "--log-every", "1"})));
  check_success(run({"report", (folder / "copying").string(), "--out", out.string()}));
  CHECK(maps_in(content(out)) == 0);
}

TEST_CASE("report shows the attention of sentences that are given", "[cli][report][translate][long]") {
  const TemporaryFolder folder;
  const fs::path trained = train(folder, "run", {"--tokenizer", "sentencepiece", "--vocabulary", "30"});
  const fs::path out = folder / "page.html", given = folder / "given.txt";
  const auto report = [&](const std::string& text) {
    write_text(given, text);
    return run({"report", trained.string(), "--sentences", given.string(), "--out", out.string()});
  };
  check_success(report("4 2\r\n\n1 7 <b>\tone seven"));
  check_self_contained(content(out));
  CHECK(maps_in(content(out)) == 2);
  CHECK_THAT(content(out), contains("<h3>1 7 &lt;b&gt;</h3>") && contains("Reference: one seven"));

  std::string long_line;
  for (int i = 0; i < 70; ++i) long_line += "1 ";
  const ProgramResult partly = report("4 2\n\xFF\n" + long_line + "\n");
  CHECK(partly.exit_code == 0);
  CHECK(lines(partly.errors) == 2);
  CHECK_THAT(partly.errors, contains("UTF-8") && contains("at most 60"));
  CHECK(maps_in(content(out)) == 1);

  fs::remove(out);
  check_refused(report("\n"), 2, {"--sentences", given.string()});
  check_refused(report(std::string(21, '\n')), 1, {given.string(), "20 lines"});
  check_refused(report(std::string(5000, 'x')), 1, {given.string(), "4096 bytes"});
  check_refused(run({"report", trained.string(), "--sentences", folder / "absent"}), 1, {"absent"});
  check_success(run(train_copying(folder / "copying", {"--steps", "2", "--log-every", "1"})));
  check_refused(run({"report", (folder / "copying").string(), "--sentences", given.string()}), 2,
                {"--sentences"});
  CHECK_FALSE(fs::exists(out));

  fs::remove(trained / "sentences.tsv");
  const ProgramResult without = run({"report", trained.string(), "--out", out.string()});
  CHECK(without.exit_code == 0);
  CHECK_THAT(without.errors, contains("sentences.tsv") && contains("--sentences"));
  CHECK(maps_in(content(out)) == 0);
}
