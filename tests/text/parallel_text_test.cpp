#include "orthornn/text/parallel_text.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"
#include "support/zip_writer.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

namespace fs = std::filesystem;

const std::string two_lines = "Go.\tVe.\nHi!\t¡Hola!\n";
const std::vector<SentencePair> two_pairs{{"Go.", "Ve."}, {"Hi!", "¡Hola!"}};

/// What is read from a text file of these bytes.
ParallelText read(const std::string& bytes, const ParallelTextOptions& options = {}) {
  const TemporaryFolder folder;
  write_text(folder / "pairs.txt", bytes);
  return read_parallel_text(folder / "pairs.txt", options);
}

/// Reading the file throws a FileError that names it and says these words.
void check_refused(const fs::path& path, std::vector<std::string> words) {
  const std::string message = error_message<FileError>([&] { read_parallel_text(path); });
  CHECK_THAT(message, contains(path.string()));
  for (const std::string& word : words) CHECK_THAT(message, contains(word));
}

void check_refused_bytes(const std::string& bytes, const std::vector<std::string>& words) {
  const TemporaryFolder folder;
  write_text(folder / "pairs.txt", bytes);
  check_refused(folder / "pairs.txt", words);
}

std::vector<SentencePair> letters() {
  std::vector<SentencePair> pairs;
  for (const char letter : {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})
    pairs.push_back({std::string(1, letter), ""});
  return pairs;
}

}  // namespace

TEST_CASE("A text of pairs is read as it is written", "[text]") {
  for (const std::string& text :
       {two_lines, "\xEF\xBB\xBF" + two_lines, std::string("Go.\tVe.\r\nHi!\t¡Hola!\r\n"),
        std::string("Go.\tVe.\nHi!\t¡Hola!"), std::string("Go.\tVe.\tCC-BY 2.0 (France)\nHi!\t¡Hola!\t\n")}) {
    const ParallelText read_text = read(text);
    CHECK(read_text.pairs == two_pairs);
    CHECK(read_text.skipped.empty());
    CHECK(describe(read_text.skipped).empty());
  }
}

TEST_CASE("Reversed pairs have the second column as their source", "[text]") {
  CHECK(read(two_lines, {.reverse = true}).pairs ==
        std::vector<SentencePair>{{"Ve.", "Go."}, {"¡Hola!", "Hi!"}});
}

TEST_CASE("A text of more pairs than are allowed is refused", "[text]") {
  // A line that is no pair does not count.
  const std::string text = "no tab\n" + two_lines;
  CHECK(read(text, {.most_pairs = 2}).pairs == two_pairs);
  check_says<FileError>([&] { read(text, {.most_pairs = 1}); }, {"pairs.txt", "more than 1 sentence pairs"});
  check_says<ValueError>([&] { read(text, {.most_pairs = 0}); }, {"most_pairs"});
}

TEST_CASE("Lines longer than a piece of the file are whole", "[text]") {
  // Pieces are 256 KiB: their ends fall into lines.
  std::string text;
  std::vector<SentencePair> expected;
  for (int i = 0; i < 40; ++i) {
    expected.push_back({std::string(20'000 + i, 'a'), std::string(30'000 - i, 'b')});
    text += expected.back().source + "\t" + expected.back().target + "\n";
  }
  CHECK(read(text).pairs == expected);
}

TEST_CASE("A line that is no pair is skipped, counted and named by its first", "[text]") {
  const std::string nul = std::string("a\0b\tc\n", 6);
  const struct {
    std::string lines;
    LineFault fault;
    Index count;
  } cases[] = {
      {"no tab\n\n", LineFault::no_tab, 2},
      {"\tb\na\t\na\t \n\u00A0\tb\n\u200B\tb\n", LineFault::empty_column, 5},
      {"a\tb\tc\td\n", LineFault::too_many_columns, 1},
      {nul + nul, LineFault::has_nul, 2},
      {"a\xFF\tb\na\t\xC3\n", LineFault::not_utf8, 2},
      {"a\tb\t\xC3\n", LineFault::not_utf8, 1},
      {"a\t" + std::string(65'535, 'b') + "\n", LineFault::too_long, 1},
      {std::string(1 << 20, 'a') + "\tb\n", LineFault::too_long, 1},
      {std::string(1 << 20, '\0') + "\n", LineFault::too_long, 1},
  };
  for (const auto& [lines, fault, count] : cases) {
    CAPTURE(name_of(fault));
    const ParallelText text = read("Go.\tVe.\n" + lines + "Hi!\t¡Hola!\n");
    CHECK(text.pairs == two_pairs);
    CHECK(text.skipped == std::vector<SkippedLines>{{fault, count, 2}});
    check_refused_bytes(lines, {"no sentence pair in its", "line 1: " + name_of(fault)});
  }
  CHECK(read("a\t" + std::string(65'534, 'b') + "\n").skipped.empty());
}

TEST_CASE("Skipped lines are described by their reasons", "[text]") {
  const ParallelText text = read("a\tb\nx\n\xFF\ny\nc\td\nlast");
  CHECK(text.pairs.size() == 2);
  CHECK(describe(text.skipped) ==
        "4 lines were skipped: 3 no tab (first: line 2), 1 not UTF-8 (first: line 3)");
  CHECK(describe({{LineFault::no_tab, 1, 7}}) == "1 line was skipped: 1 no tab (first: line 7)");
}

TEST_CASE("A file without text is refused", "[text]") {
  const TemporaryFolder folder;
  check_refused(folder / "missing.txt", {"there is no such file"});
  write_text(folder / "empty.txt", "");
  check_refused(folder / "empty.txt", {"it is empty"});
  write_text(folder / "mark.txt", "\xEF\xBB\xBF");
  check_refused(folder / "mark.txt", {"line 1: no tab"});
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  check_refused(folder / "pipe", {"no regular file"});
  check_refused("/dev/zero", {"no regular file"});
  check_refused(folder / "empty.txt" / "below", {"cannot be looked at"});
}

TEST_CASE("A text in another encoding is refused", "[text]") {
  check_refused_bytes(std::string("\xFF\xFEG\0o\0\t\0V\0e\0\n\0", 14), {"line 1: a NUL byte"});
  check_refused_bytes("ni\xF1o\tchild\n", {"line 1: not UTF-8"});
}

TEST_CASE("A text of more than 1 GiB is refused", "[text][long]") {
  const TemporaryFolder folder;
  write_text(folder / "huge.txt", two_lines);
  fs::resize_file(folder / "huge.txt", (std::uintmax_t{1} << 30) + 1);  // sparse: takes no place on the disk
  check_refused(folder / "huge.txt", {"more than 1 GiB"});
}

TEST_CASE("A zip archive is read by its only text", "[text]") {
  const TemporaryFolder folder;
  const fs::path path = folder / "pairs.zip";
  write_zip(path, {{"spa-eng/", ""},
                   {"spa-eng/_about.txt", "no pairs"},
                   {"./spa-eng/spa.txt", two_lines},
                   {"__MACOSX/spa-eng/spa.txt", "no pairs"},
                   {"spa-eng/._spa.txt", "no pairs"},
                   {"spa-eng/read.me", "no pairs"},
                   {"folder.txt/", ""}});
  CHECK(read_parallel_text(path).pairs == two_pairs);
  CHECK(read_parallel_text(path, {.reverse = true}).pairs.front() == SentencePair{"Ve.", "Go."});
  // What it is shows in its first bytes, whatever it is called.
  fs::rename(path, folder / "pairs.txt");
  CHECK(read_parallel_text(folder / "pairs.txt").pairs == two_pairs);
}

TEST_CASE("A zip archive with no text, with several, or with a wrong one is refused", "[text]") {
  const TemporaryFolder folder;
  const fs::path path = folder / "pairs.zip";
  write_zip(path, {{"_about.txt", "x"}, {"spa.csv", two_lines}});
  check_refused(path, {"expected one *.txt", "found none among 2 members"});
  write_zip(path, {{"a.txt", two_lines}, {"b/b.TXT", two_lines}});
  check_refused(path, {"expected one *.txt", "found 2 (a.txt, b/b.TXT)"});
  write_zip(path, {{"spa.txt", ""}});
  check_refused(path, {"(spa.txt)", "it is empty"});
  write_zip(path, {{"spa.txt", "no pairs\n"}});
  check_refused(path, {"(spa.txt)", "line 1: no tab"});
}

TEST_CASE("A damaged zip archive is refused", "[text]") {
  const TemporaryFolder folder;
  const fs::path path = folder / "pairs.zip";
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += std::to_string(i * i % 1999) + " a\t" + std::to_string(i) + " b\n";
  write_zip(path, {{"spa.txt", lines}});
  REQUIRE(read_parallel_text(path).pairs.size() == 2000);
  const std::string sound = read_text(path);

  for (const std::size_t length : {std::size_t{0}, std::size_t{4}, sound.size() / 2, sound.size() - 1}) {
    write_text(path, sound.substr(0, length));
    check_refused(path, {"damaged, truncated or no zip archive"});
  }
  std::string changed = sound;
  changed[sound.size() / 2] = static_cast<char>(~changed[sound.size() / 2]);
  write_text(path, changed);
  check_refused(path, {"damaged, truncated or no zip archive"});
  write_text(path, lines);  // a text that only bears the name
  check_refused(path, {"no zip archive"});
}

TEST_CASE("An encrypted zip archive is refused", "[text]") {
  const TemporaryFolder folder;
  const fs::path path = folder / "pairs.zip";
  write_zip(path, {{"spa.txt", two_lines}});
  change_directory(path, [](std::string& bytes, std::size_t place) { bytes[place + 8] |= 1; });
  check_refused(path, {"(spa.txt)", "it is encrypted"});
}

TEST_CASE("A zip bomb is refused before it fills the memory", "[text][long]") {
  const TemporaryFolder folder;
  const fs::path path = folder / "pairs.zip";
  std::string lines = two_lines;
  lines.reserve(20'000'000);
  while (lines.size() < 20'000'000) lines += "a\ta\n";
  write_zip(path, {{"spa.txt", lines}});
  REQUIRE(fs::file_size(path) < 100'000);
  check_refused(path, {"taken for a zip bomb", "200 times"});
  // Not what the archive says of itself is compared.
  change_directory(path,
                   [](std::string& bytes, std::size_t place) { bytes.replace(place + 20, 4, 4, '\x20'); });
  check_refused(path, {});
}

TEST_CASE("A zip archive whose text would have more than 1 GiB is refused", "[text]") {
  const TemporaryFolder folder;
  const fs::path path = folder / "pairs.zip";
  write_zip(path, {{"spa.txt", two_lines}});
  change_directory(path,
                   [](std::string& bytes, std::size_t place) { bytes.replace(place + 24, 4, 4, '\x7F'); });
  check_refused(path, {"(spa.txt)", "more than 1 GiB"});
}

TEST_CASE("A folder is read by its only archive or text", "[text]") {
  const char* const name = GENERATE("pairs.txt", "pairs.tsv", "PAIRS.TXT");
  const TemporaryFolder folder;
  write_text(folder / name, two_lines);
  write_text(folder / "_about.txt", "no pairs");
  write_text(folder / ".hidden.txt", "no pairs");
  write_text(folder / "notes.md", "no pairs");
  fs::create_directory(folder / "other.txt");
  CHECK(read_parallel_text(folder.path()).pairs == two_pairs);
  fs::remove(folder / name);
  check_refused(folder.path(), {"has no *.zip, *.txt or *.tsv"});
  write_zip(folder / "spa-eng.zip", {{"spa.txt", two_lines}});
  CHECK(read_parallel_text(folder.path()).pairs == two_pairs);
  write_text(folder / name, two_lines);
  check_refused(folder.path(), {"found 2", name, "spa-eng.zip", "name one of them"});
}

TEST_CASE("Shuffled pairs are the same pairs in an order of the seed", "[text]") {
  std::vector<SentencePair> pairs;
  for (int i = 0; i < 1000; ++i) pairs.push_back({std::to_string(i), std::to_string(-i)});
  const std::vector<SentencePair> one = shuffled(pairs, 1);
  CHECK(one != pairs);
  CHECK(one == shuffled(pairs, 1));
  CHECK(one != shuffled(pairs, 2));
  CHECK(std::ranges::is_permutation(one, pairs));
  // Of Philox alone, so on every machine. Computed by another program.
  std::string order;
  for (const SentencePair& pair : shuffled(letters(), 1)) order += pair.source;
  CHECK(order == "hbacgefd");
  // The mean of 100 of 1000 numbers has a deviation of 27.
  Index sum = 0;
  for (int i = 0; i < 100; ++i) sum += std::stoi(one[static_cast<std::size_t>(i)].source);
  CHECK(std::abs(sum / 100 - 500) < 150);
}

TEST_CASE("One side of the pairs can be looked at", "[text]") {
  CHECK(sentences_of(two_pairs, Column::source) == std::vector<std::string_view>{"Go.", "Hi!"});
  CHECK(sentences_of(two_pairs, Column::target) == std::vector<std::string_view>{"Ve.", "¡Hola!"});
}
