// Sequences of symbols in texts.

#include <fmt/format.h>

#include <algorithm>

#include "orthornn/core/error.hpp"
#include "tasks/sequences/sequence_file.hpp"
#include "text/text_file.hpp"

namespace orthornn {
namespace {

/// Where a part of a text may begin, near `place`: after an end of a line, or else at a character.
std::size_t boundary_near(std::string_view text, std::size_t place) {
  constexpr std::size_t longest_line = 4096;
  if (place == 0) return 0;
  const std::size_t line = text.substr(0, place + longest_line).find('\n', place - 1);
  if (line != std::string_view::npos) return line + 1;
  const auto is_inside = [&] { return (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80; };
  while (place < text.size() && is_inside()) ++place;
  return place;
}

SymbolTable table_of(const SequencesOptions& options, const std::vector<FileText>& texts,
                     const std::vector<std::int32_t>& parts, bool has_end, const auto& refuse) {
  constexpr Index default_words = 30'000;
  if (options.text == TextUnit::bytes) return SymbolTable(options.text, has_end, {});
  SymbolCounts counts(options.text);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (parts[i] != 0) continue;
    try {
      counts.add(texts[i].text);
    } catch (const ValueError& error) {
      refuse(texts[i], error);
    }
  }
  const Index all = options.text == TextUnit::words ? default_words : 0;
  return SymbolTable(options.text, has_end,
                     counts.most_frequent(options.vocabulary > 0 ? options.vocabulary : all));
}

}  // namespace

void read_symbols(const SequencesOptions& options, const std::vector<FileText>& texts,
                  const std::vector<std::int32_t>& parts, Ends ends, const KnownNames& known,
                  SequenceFile& to) {
  const auto refuse = [&](const FileText& text, const Error& error) {
    throw FileError(fmt::format("{}: the text that begins in line {}: {}", options.data.string(), text.line,
                                error.what()));
  };
  to.symbol_table = std::make_unique<SymbolTable>(
      known.symbols != nullptr ? *known.symbols
                               : table_of(options, texts, parts, ends != Ends::none, refuse));
  to.symbol_bytes = to.symbol_table->bytes_of_symbols();
  const std::int32_t end = to.symbol_table->end().value_or(0);
  std::vector<std::int32_t> symbols;
  std::size_t bytes = 0;
  for (const FileText& text : texts) bytes += text.text.size() + 2;
  symbols.reserve(bytes);  // a symbol has a byte or more
  to.lengths.clear();
  for (const FileText& text : texts) {
    const std::size_t begin = symbols.size();
    if (ends != Ends::none) symbols.push_back(end);
    try {
      to.symbol_table->read(text.text, symbols);
    } catch (const ValueError& error) {
      refuse(text, error);
    }
    if (ends == Ends::around) symbols.push_back(end);
    if (symbols.size() == begin)
      refuse(text, ValueError("it has no symbols; expected some text: leave it out"));
    to.lengths.push_back(static_cast<std::int32_t>(symbols.size() - begin));
  }
  Tensor<std::int32_t> all;
  all.reserve({std::ssize(symbols)});
  std::ranges::copy(symbols, all.begin());
  to.symbols = std::move(all);
}

SequenceFile read_text(const SequencesOptions& options, const KnownNames& known, Wanted what) {
  std::string text;
  read_text_file(options.data, [&](std::string_view piece) { text += piece; });
  if (options.text != TextUnit::bytes && text.starts_with("\xEF\xBB\xBF"))
    text.erase(0, 3);  // the mark of UTF-8
  SequenceFile result;
  const bool divides = what == Wanted::everything;
  result.validation = divides && options.validation_data.empty() ? 1 : 0;
  result.test = divides && options.test_data.empty() ? 1 : 0;
  const double test = result.test > 0 ? options.test_part : 0,
               validation = result.validation > 0 ? options.validation_part : 0;
  const auto place = [&](double share) {
    const auto bytes = static_cast<double>(text.size());
    return boundary_near(text, static_cast<std::size_t>(std::max(0.0, bytes * share)));
  };
  std::vector<std::size_t> ends = {place(1 - validation - test)};
  if (result.validation > 0) ends.push_back(std::max(ends.back(), place(1 - test)));
  if (result.test > 0) ends.push_back(text.size());
  ends.back() = text.size();
  std::vector<FileText> texts;
  std::vector<std::int32_t> parts;
  Index line = 1;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    texts.push_back({std::string_view(text).substr(begin, end - begin), line});
    parts.push_back(begin == 0 ? 0 : 1);
    line += std::ranges::count(texts.back().text, '\n');
    begin = end;
  }
  if (std::ranges::any_of(texts, [](const FileText& part) { return part.text.empty(); })) {
    throw FileError(fmt::format("{}: its text has {} bytes, too few for {}; expected some lines for each",
                                options.data.string(), text.size(),
                                texts.size() == 1 ? "a sequence" : "training and held-out data"));
  }
  read_symbols(options, texts, parts, Ends::none, known, result);
  return result;
}

}  // namespace orthornn
