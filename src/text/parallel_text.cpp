#include "orthornn/text/parallel_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <utility>

#include "core/quantity.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/text/normalization.hpp"
#include "text/text_file.hpp"

namespace orthornn {
namespace {

/// As the name of LineFault::too_long says.
constexpr std::size_t longest_line = 65'536;

/// Cuts a text that comes in pieces into lines, and calls `take(line)`, without a value for a line that is
/// too long. Keeps no more than such a line.
template <class Take>
class LineSplitter {
 public:
  explicit LineSplitter(Take take) : take_(std::move(take)) {}

  void feed(std::string_view piece) {
    while (!piece.empty()) {
      const std::size_t end = piece.find('\n');
      const std::string_view part = piece.substr(0, end);
      if (end == std::string_view::npos) {
        keep(part);
        return;
      }
      end_line(part);
      piece.remove_prefix(end + 1);
    }
  }
  /// The last line need not end.
  void finish() {
    if (too_long_ || !begun_.empty()) end_line({});
  }

 private:
  void keep(std::string_view part) {
    too_long_ = too_long_ || begun_.size() + part.size() > longest_line;
    too_long_ ? begun_.clear() : void(begun_.append(part));
  }
  void end_line(std::string_view part) {
    if (begun_.empty() && !too_long_ && part.size() <= longest_line) {
      take_(std::optional(part));
      return;
    }
    keep(part);
    take_(too_long_ ? std::nullopt : std::optional<std::string_view>(begun_));
    begun_.clear();
    too_long_ = false;
  }

  Take take_;
  std::string begun_;
  bool too_long_ = false;
};

/// Makes pairs of lines, and counts those that are none.
class PairReader {
 public:
  PairReader(std::filesystem::path file, const ParallelTextOptions& options)
      : file_(std::move(file)), options_(options) {}

  void take(std::optional<std::string_view> line) {
    ++lines_;
    if (line && lines_ == 1 && line->starts_with("\xEF\xBB\xBF")) line->remove_prefix(3);
    if (line && line->ends_with('\r')) line->remove_suffix(1);
    std::array<std::string_view, 2> columns;
    if (const std::optional<LineFault> fault = split(line, columns)) {
      SkippedLines& skipped = skipped_[static_cast<std::size_t>(*fault)];
      skipped.fault = *fault;
      if (skipped.count++ == 0) skipped.first_line = lines_;
      return;
    }
    if (std::ssize(text_.pairs) == options_.most_pairs) {
      throw FileError(
          fmt::format("{}: it has more than {} sentence pairs, the limit; keep the pairs that are wanted",
                      file_.string(), options_.most_pairs));
    }
    text_.pairs.push_back({.source = std::string(columns[options_.reverse ? 1 : 0]),
                           .target = std::string(columns[options_.reverse ? 0 : 1])});
  }

  Index lines() const { return lines_; }

  ParallelText finish() {
    std::ranges::copy_if(skipped_, std::back_inserter(text_.skipped),
                         [](const SkippedLines& skipped) { return skipped.count > 0; });
    std::ranges::sort(text_.skipped, {}, &SkippedLines::first_line);
    return std::move(text_);
  }

 private:
  static std::optional<LineFault> split(std::optional<std::string_view> line,
                                        std::array<std::string_view, 2>& columns) {
    using enum LineFault;
    if (!line) return too_long;
    if (line->find('\0') != std::string_view::npos) return has_nul;
    if (!is_utf8(*line)) return not_utf8;
    const std::size_t first = line->find('\t');
    if (first == std::string_view::npos) return no_tab;
    const std::size_t second = std::min(line->find('\t', first + 1), line->size());
    if (second < line->size() && line->find('\t', second + 1) != std::string_view::npos)
      return too_many_columns;
    columns = {line->substr(0, first), line->substr(first + 1, second - first - 1)};
    if (is_blank(columns[0]) || is_blank(columns[1])) return empty_column;
    return std::nullopt;
  }

  std::filesystem::path file_;
  const ParallelTextOptions& options_;
  Index lines_ = 0;
  ParallelText text_;
  std::array<SkippedLines, std::size(Names<LineFault>::list)> skipped_{};
};

}  // namespace

std::vector<std::string_view> sentences_of(std::span<const SentencePair> pairs, Column column) {
  std::vector<std::string_view> sentences;
  sentences.reserve(pairs.size());
  for (const SentencePair& pair : pairs) sentences.push_back(sentence_of(pair, column));
  return sentences;
}

std::string describe(const std::vector<SkippedLines>& skipped) {
  if (skipped.empty()) return "";
  Index total = 0;
  std::string reasons;
  for (const SkippedLines& lines : skipped) {
    total += lines.count;
    reasons += fmt::format("{}{} {} (first: line {})", reasons.empty() ? "" : ", ", lines.count,
                           name_of(lines.fault), lines.first_line);
  }
  return fmt::format("{} {} skipped: {}", quantity(total, "line"), total == 1 ? "was" : "were", reasons);
}

ParallelText read_parallel_text(const std::filesystem::path& path, const ParallelTextOptions& options) {
  std::error_code ignored;  // reading it says what is wrong
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  check_fields("the text", options);
  const std::filesystem::path file = is_folder ? find_text_file(path) : path;
  PairReader reader(file, options);
  LineSplitter lines([&](std::optional<std::string_view> line) { reader.take(line); });
  const std::string name = read_text_file(file, [&](std::string_view piece) { lines.feed(piece); });
  lines.finish();
  if (reader.lines() == 0) throw FileError(fmt::format("{}: it is empty; expected sentence pairs", name));
  const Index count = reader.lines();
  ParallelText text = reader.finish();
  if (text.pairs.empty()) {
    throw FileError(
        fmt::format("{}: no sentence pair in its {} lines, expected SOURCE, a tab, TARGET, in UTF-8; "
                    "line {}: {}",
                    name, count, text.skipped.front().first_line, name_of(text.skipped.front().fault)));
  }
  return text;
}

std::vector<SentencePair> shuffled(std::vector<SentencePair> pairs, std::uint64_t seed) {
  RandomStream stream(seed, RandomPurpose::selection);
  shuffle(std::span(pairs), stream);
  return pairs;
}

}  // namespace orthornn
