#pragma once
// Sentence pairs for translation, as www.manythings.org/anki distributes those of tatoeba.org.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/core/fields.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// A sentence and its translation, as the file has them.
struct SentencePair {
  std::string source;
  std::string target;
  bool operator==(const SentencePair&) const = default;
};

/// A side of the pairs.
enum class Column { source, target };
template <>
struct Names<Column> {
  using enum Column;
  static constexpr Choice<Column> list[] = {{"source", source}, {"target", target}};
};

inline const std::string& sentence_of(const SentencePair& pair, Column column) {
  return column == Column::source ? pair.source : pair.target;
}
/// Views of one side of the pairs.
std::vector<std::string_view> sentences_of(std::span<const SentencePair> pairs, Column column);

/// Why a line is no sentence pair. A line that is several things has the first of them.
enum class LineFault { too_long, has_nul, not_utf8, no_tab, too_many_columns, empty_column };
template <>
struct Names<LineFault> {
  using enum LineFault;
  static constexpr Choice<LineFault> list[] = {{"longer than 65,536 bytes", too_long},
                                               {"a NUL byte", has_nul},
                                               {"not UTF-8", not_utf8},
                                               {"no tab", no_tab},
                                               {"more than three columns", too_many_columns},
                                               {"an empty column", empty_column}};
};

/// Lines that were skipped for one reason.
struct SkippedLines {
  LineFault fault;
  Index count = 0;
  /// Number of the first of them, from 1.
  Index first_line = 0;
  bool operator==(const SkippedLines&) const = default;
};

struct ParallelText {
  /// In the order of the file.
  std::vector<SentencePair> pairs;
  /// One for each reason that there was, by first line.
  std::vector<SkippedLines> skipped;
};

/// "3 lines were skipped: 2 no tab (first: line 7), 1 not UTF-8 (first: line 9)"; "" when none was.
std::string describe(const std::vector<SkippedLines>& skipped);

struct ParallelTextOptions {
  /// The second column is the source.
  bool reverse = false;
  /// More pairs are refused: a text of the largest size has so many lines of 64 bytes, and those of Tatoeba
  /// have 67. A TranslationTask takes some 260 bytes for a pair of the shortest sentences, 4 GiB for so many;
  /// a text of 1 GiB in lines of 4 bytes would take 64 GiB.
  Index most_pairs = Index{1} << 24;

  static void fields(auto&& visit) {
    visit("reverse", &ParallelTextOptions::reverse, domain::any, "the second column is the source");
    visit("most_pairs", &ParallelTextOptions::most_pairs, domain::count, "more pairs are refused");
  }
};

/// Reads a text of sentence pairs: a line is SOURCE tab TARGET, or these and a third column (a licence),
/// which is ignored; UTF-8 with or without a byte order mark, lines that end with LF or CR LF. `path` is
///
///   a text
///   a zip archive with one member *.txt (names that begin with _ or . do not count, nor what lies in folders
///     of such names)
///   a folder with one *.zip, *.txt or *.tsv (likewise)
///
/// Lines with a LineFault are skipped and counted. Throws FileError, which names the file, what was expected
/// and what was found: nothing to read, or several texts; an encrypted or damaged archive; an empty file; no
/// line that is a pair (with the fault of the first line); a text of more than 1 GiB, or of more than 8 MiB
/// and 200 times its archive, which is taken for a zip bomb; more than `most_pairs`. Takes memory for the
/// pairs alone. Throws ValueError for options outside their domain.
ParallelText read_parallel_text(const std::filesystem::path& path, const ParallelTextOptions& options = {});

/// The pairs in an order that the seed and their number decide. Files are sorted by length: the first so many
/// of these are a sample of the whole.
std::vector<SentencePair> shuffled(std::vector<SentencePair> pairs, std::uint64_t seed);

}  // namespace orthornn
