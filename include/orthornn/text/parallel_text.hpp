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
  std::string source;  ///< Sentence that is translated.
  std::string target;  ///< Translation of the source.
  bool operator==(const SentencePair&) const = default;
};

/// A side of sentence pairs.
enum class Column {
  source,  ///< The sentences that are translated.
  target   ///< The translations.
};
template <>
struct Names<Column> {
  using enum Column;
  static constexpr Choice<Column> list[] = {{"source", source}, {"target", target}};
};

/// Sentence of a pair, on one side.
inline const std::string& sentence_of(const SentencePair& pair, Column column) {
  return column == Column::source ? pair.source : pair.target;
}
/// Views of the sentences of all pairs, on one side.
std::vector<std::string_view> sentences_of(std::span<const SentencePair> pairs, Column column);

/// Reason why a line is no sentence pair. A line with several faults has the first one of this list.
enum class LineFault {
  too_long,          ///< The line is longer than 65,536 bytes.
  has_nul,           ///< The line has a NUL byte.
  not_utf8,          ///< The line is not UTF-8.
  no_tab,            ///< The line has no tab, and so only one column.
  too_many_columns,  ///< The line has more than three columns.
  empty_column       ///< The first or the second column is empty.
};
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
  /// Reason.
  LineFault fault;
  /// Number of lines.
  Index count = 0;
  /// Number of the first of these lines, counted from 1.
  Index first_line = 0;
  bool operator==(const SkippedLines&) const = default;
};

/// Content of a text of sentence pairs.
struct ParallelText {
  /// Pairs in the order of the file.
  std::vector<SentencePair> pairs;
  /// Skipped lines, one entry for each reason that there was, ordered by first line.
  std::vector<SkippedLines> skipped;
};

/// A sentence for readers on skipped lines: "3 lines were skipped: 2 no tab (first: line 7), 1 not UTF-8
/// (first: line 9)". It is empty when no line was skipped.
std::string describe(const std::vector<SkippedLines>& skipped);

/// How a text of sentence pairs is read.
struct ParallelTextOptions {
  /// Whether the second column is the source.
  bool reverse = false;
  /// Largest number of pairs; a text of more is refused. A text of the largest size has so many lines of 64
  /// bytes, and lines of Tatoeba have 67. A TranslationTask takes some 260 bytes for a pair of the shortest
  /// sentences, so 4 GiB for this number; a text of 1 GiB in lines of 4 bytes would take 64 GiB.
  Index most_pairs = Index{1} << 24;

  static void fields(auto&& visit) {
    visit("reverse", &ParallelTextOptions::reverse, domain::any, "the second column is the source");
    visit("most_pairs", &ParallelTextOptions::most_pairs, domain::count, "more pairs are refused");
  }
};

/// Reads a text of sentence pairs. A line is SOURCE tab TARGET, or has a third column (a licence), which is
/// ignored. The text is UTF-8 with or without a byte order mark, with lines that end with LF or CR LF. `path`
/// is
///
/// - a text,
/// - a zip archive with one member of a name `*.txt`, or
/// - a folder with one file of a name `*.zip`, `*.txt` or `*.tsv`.
///
/// Names that begin with `_` or `.` do not count, nor do members in folders of such names. Lines with a
/// LineFault are skipped and counted. Memory is taken for the pairs alone.
///
/// Throws ValueError for options outside their domain. Throws FileError, which names the file, what was
/// expected and what was found, for
///
/// - no text, or several texts;
/// - an encrypted or damaged archive, and an empty file;
/// - a text without a line that is a pair (with the fault of the first line);
/// - a text of more than 1 GiB, and a text of more than 8 MiB and 200 times its archive, which is taken for a
///   zip bomb;
/// - more than `most_pairs` pairs.
ParallelText read_parallel_text(const std::filesystem::path& path, const ParallelTextOptions& options = {});

/// Puts the pairs in a random order, which the seed and their number decide. Files are sorted by length;
/// after it, the first pairs are a sample of the whole.
std::vector<SentencePair> shuffled(std::vector<SentencePair> pairs, std::uint64_t seed);

}  // namespace orthornn
