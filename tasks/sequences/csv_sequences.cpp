// Sequences in a CSV file: a row is a step of the sequence that a column names, or a row is a sequence.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/parsed_number.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/text/normalization.hpp"
#include "tasks/sequences/loaded_sequences.hpp"
#include "tasks/sequences/sequence_file.hpp"

namespace orthornn {
namespace {

constexpr std::size_t npos = std::string::npos;

/// The number that a cell has, which may round to 0 or to infinity; NaN for an empty cell and for "nan" or
/// "NA"; no value for other text.
std::optional<float> number_in(std::string_view cell) {
  cell = without_blanks(cell);
  if (cell.empty() || cell == "nan" || cell == "NaN" || cell == "NA")
    return std::numeric_limits<float>::quiet_NaN();
  if (cell.front() == '+') cell.remove_prefix(1);
  if (const std::optional<float> number = parsed_number<float>(cell)) return number;
  // Numbers that a float has no place for, as 1e-50, are no text.
  const std::optional<long double> number = parsed_number<long double>(cell);
  if (!number) return std::nullopt;
  if (std::abs(*number) > std::numeric_limits<float>::max())
    return *number > 0 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
  return static_cast<float>(*number);
}

/// Why a cell with such a number is refused, where a finite one is needed.
std::string why_refused(std::string_view cell, const std::optional<float>& number) {
  return fmt::format("'{}' is {}", cell.substr(0, 40),
                     number ? "infinite, or too large for a number of 32 bits" : "no finite number");
}

/// Reads the rows of a CSV file: cells with commas between, in quotation marks where they have commas
/// themselves (RFC 4180).
class CsvReader {
 public:
  CsvReader(const std::filesystem::path& file, Wanted what)
      : file_(file.string()), stream_(file), what_(what) {
    if (!stream_) fail(fmt::format("it cannot be opened ({})", std::strerror(errno)));
  }

  [[noreturn]] void fail(const std::string& why) const { throw FileError(fmt::format("{}: {}", file_, why)); }
  /// Throws FileError, which names the row and, if there is one, the column.
  [[noreturn]] void fail_at(const std::string& column, const std::string& why) const {
    fail(fmt::format("row {}{}: {}", row_, column.empty() ? "" : fmt::format(", column '{}'", column), why));
  }
  /// The next row that is not empty; false at the end. Views are valid until the next call.
  bool next(std::vector<std::string_view>& cells) {
    constexpr std::size_t longest = std::size_t{1} << 26;
    do {
      if (!std::getline(stream_, line_)) {
        if (stream_.bad()) fail("it cannot be read to its end");
        return false;
      }
      row_ = ++line_number_;
      // A cell in quotation marks may have ends of lines.
      std::string more;
      while (std::ranges::count(line_, '"') % 2 == 1 && line_.size() <= longest &&
             std::getline(stream_, more)) {
        ++line_number_;
        line_ += '\n' + more;
      }
      if (line_.size() > longest) fail_at("", fmt::format("it has more than {} bytes", longest));
      check_text();
      if (!line_.empty() && line_.back() == '\r') line_.pop_back();
      if (row_ == 1 && line_.starts_with("\xEF\xBB\xBF")) line_.erase(0, 3);  // the mark of UTF-8
    } while (without_blanks(line_).empty());
    split(cells);
    return true;
  }
  Index row() const { return row_; }
  /// Whether the file is read for a model that was trained before, whose columns cannot be chosen any more.
  bool is_for_model() const { return what_ == Wanted::inputs; }

 private:
  /// What other bytes would be, messages and model files could not hold.
  void check_text() const {
    const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
    if (line_.find('\0') != npos || (!std::ranges::all_of(line_, is_ascii) && !is_utf8(line_)))
      fail_at("", "it is no text in UTF-8; convert the file (iconv), or name one that is CSV");
  }
  void split(std::vector<std::string_view>& cells) {
    cells.clear();
    unquoted_.clear();
    unquoted_.reserve(line_.size());  // so that views into it stay
    std::size_t at = 0;
    while (true) {
      if (at < line_.size() && line_[at] == '"') {
        const std::size_t begin = unquoted_.size();
        for (++at;; ++at) {
          if (at >= line_.size()) fail_at("", "a quotation mark is not closed in the row");
          if (line_[at] == '"') {
            if (at + 1 >= line_.size() || line_[at + 1] != '"') break;
            ++at;  // two of them stand for one
          }
          unquoted_ += line_[at];
        }
        cells.emplace_back(unquoted_.data() + begin, unquoted_.size() - begin);
        ++at;
        if (at < line_.size() && line_[at] != ',') fail_at("", "expected a comma after a quotation mark");
      } else {
        const std::size_t end = std::min(line_.find(',', at), line_.size());
        cells.emplace_back(line_.data() + at, end - at);
        at = end;
      }
      if (at >= line_.size()) return;
      ++at;
    }
  }

  std::string file_;
  std::ifstream stream_;
  std::string line_, unquoted_;
  Wanted what_;
  /// First line of the last row, and its last one.
  Index row_ = 0, line_number_ = 0;
};

/// Which columns mean what.
struct Columns {
  std::vector<std::string> names = {};
  std::vector<std::size_t> inputs = {};
  std::size_t target = npos, id = npos, group = npos;
};

/// The column of a name, or of a number from 1; npos where there is none.
std::size_t find_column(const std::vector<std::string>& names, std::string_view wanted) {
  wanted = without_blanks(wanted);
  const auto found = std::ranges::find(names, wanted);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const std::optional<std::size_t> number = parsed_number<std::size_t>(wanted);
  return number && *number >= 1 && *number <= names.size() ? *number - 1 : npos;
}

/// The column of a name, or of a number from 1, which must be there.
std::size_t column_of(const CsvReader& reader, const std::vector<std::string>& names, const char* flag,
                      std::string_view wanted) {
  if (std::ranges::count(names, without_blanks(wanted)) > 1) {
    reader.fail(fmt::format("{} names the column '{}', and several have this name; choose one by its number",
                            flag, without_blanks(wanted)));
  }
  if (const std::size_t found = find_column(names, wanted); found != npos) return found;
  constexpr std::size_t shown = 20;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(shown, names.size())));
  const std::string named =
      reader.is_for_model() ? fmt::format("the training had {} for", flag) : fmt::format("{} names", flag);
  reader.fail(fmt::format("{} the column '{}'; it has {} columns: {}{}", named, without_blanks(wanted),
                          names.size(), fmt::join(first, ", "), names.size() > shown ? ", .." : ""));
}

/// Refuses inputs that are read twice, and those that give the answer away.
void check_inputs(const CsvReader& reader, const Columns& columns) {
  for (auto c = columns.inputs.begin(); c != columns.inputs.end(); ++c) {
    const auto refuse = [&](const char* why) {
      reader.fail(fmt::format("--inputs names the column '{}', {}", columns.names[*c], why));
    };
    if (*c == columns.id) refuse("and --id names it too: the name of a sequence is not read; leave it out");
    if (*c == columns.target)
      refuse("which is the target: a model would read its answer; leave it out, or use --goal forecast");
    if (std::find(columns.inputs.begin(), c, *c) != c)
      refuse("and names it twice; expected each column once");
  }
}

Columns columns_of(const CsvReader& reader, std::vector<std::string> names, const SequencesOptions& options,
                   Wanted what) {
  Columns columns{.names = std::move(names)};
  const auto find = [&](const char* flag, std::string_view wanted) {
    return column_of(reader, columns.names, flag, wanted);
  };
  if (!options.id.empty()) columns.id = find("--id", options.id);
  const auto find_unneeded = [&](const char* flag, const std::string& wanted) {
    return what == Wanted::inputs ? find_column(columns.names, wanted) : find(flag, wanted);
  };
  if (!options.group_by.empty()) columns.group = find_unneeded("--group-by", options.group_by);
  if (options.goal != Goal::forecast)
    columns.target = find_unneeded("--target", options.target.empty() ? "target" : options.target);
  for (std::string_view left = options.inputs; !left.empty();) {
    const std::size_t end = std::min(left.find(','), left.size());
    const std::string_view item = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    const std::size_t dash = item.find('-');
    const bool is_range =
        dash != npos && dash > 0 && std::ranges::find(columns.names, item) == columns.names.end();
    const std::size_t first = find("--inputs", is_range ? item.substr(0, dash) : item);
    const std::size_t last = is_range ? find("--inputs", item.substr(dash + 1)) : first;
    for (std::size_t c = first; c <= last; ++c) columns.inputs.push_back(c);
  }
  for (std::size_t c = 0; options.inputs.empty() && c < columns.names.size(); ++c) {
    if (c != columns.target && c != columns.id && c != columns.group) columns.inputs.push_back(c);
  }
  if (columns.inputs.empty()) reader.fail("no column is left to read; expected some in --inputs");
  if (what == Wanted::inputs)
    columns.target = columns.group = npos;
  else
    check_inputs(reader, columns);
  return columns;
}

/// What is collected row by row.
struct Rows {
  std::vector<float> features;
  /// In place of features, where a column has texts.
  std::vector<std::string> texts;
  std::vector<std::string> targets;
  /// Number of the sequence and of the group of each row.
  std::vector<std::int32_t> sequence, group;
  std::map<std::string, std::int32_t, std::less<>> sequences, groups;
  /// Row of the file for each row that is kept.
  std::vector<Index> places;
};

std::int32_t number_of(std::map<std::string, std::int32_t, std::less<>>& numbers, std::string_view name) {
  const auto found = numbers.find(name);
  if (found != numbers.end()) return found->second;
  return numbers.emplace(std::string(name), static_cast<std::int32_t>(numbers.size())).first->second;
}

void add_numbers(const CsvReader& reader, const Columns& columns, const SequencesOptions& options,
                 const std::vector<std::string_view>& cells, std::vector<float>& to) {
  for (const std::size_t c : columns.inputs) {
    const std::optional<float> number = number_in(cells[c]);
    if (!number || std::isinf(*number)) {
      reader.fail_at(columns.names[c], why_refused(cells[c], number) +
                                           "; expected a finite number, or nothing where it is missing");
    }
    if (std::isnan(*number) && options.missing == Missing::refuse) {
      reader.fail_at(columns.names[c],
                     fmt::format("it is missing; expected a number{}",
                                 reader.is_for_model() ? ", as the model was trained without --missing"
                                                       : ", or --missing zero or mask"));
    }
    to.push_back(*number);
  }
}

Rows read_rows(CsvReader& reader, const Columns& columns, const SequencesOptions& options,
               std::vector<std::string_view> cells, bool has_header) {
  const bool has_texts = options.text != TextUnit::automatic;
  Rows rows;
  for (bool more = !has_header || reader.next(cells); more; more = reader.next(cells)) {
    if (cells.size() != columns.names.size()) {
      reader.fail_at("", fmt::format("it has {} cells; expected {}, as the first row has", cells.size(),
                                     columns.names.size()));
    }
    if (has_texts)
      rows.texts.emplace_back(cells[columns.inputs.front()]);
    else
      add_numbers(reader, columns, options, cells, rows.features);
    if (columns.target != npos) rows.targets.emplace_back(without_blanks(cells[columns.target]));
    if (columns.id != npos && without_blanks(cells[columns.id]).empty())
      reader.fail_at(columns.names[columns.id], "it is empty; expected the name of a sequence");
    if (columns.id != npos) rows.sequence.push_back(number_of(rows.sequences, cells[columns.id]));
    if (columns.group != npos) rows.group.push_back(number_of(rows.groups, cells[columns.group]));
    rows.places.push_back(reader.row());
  }
  if (rows.places.empty()) reader.fail("it has no rows beside its header");
  return rows;
}

/// The rows of each sequence, in their order, one sequence after the other.
std::vector<std::size_t> order_of(const Rows& rows, std::vector<std::int32_t>& lengths) {
  lengths.assign(rows.sequences.size(), 0);
  for (const std::int32_t i : rows.sequence) ++lengths[static_cast<std::size_t>(i)];
  std::vector<std::size_t> next(lengths.size(), 0), order(rows.sequence.size());
  for (std::size_t i = 1; i < next.size(); ++i)
    next[i] = next[i - 1] + static_cast<std::size_t>(lengths[i - 1]);
  for (std::size_t row = 0; row < order.size(); ++row)
    order[next[static_cast<std::size_t>(rows.sequence[row])]++] = row;
  return order;
}

bool is_missing(const std::string& target) {
  const std::optional<float> number = number_in(target);
  return number && std::isnan(*number);
}

bool are_whole_or_text(const std::vector<std::string>& targets) {
  return std::ranges::any_of(targets, [](const std::string& target) { return !number_in(target); }) ||
         std::ranges::all_of(targets, [](const std::string& target) {
           return is_missing(target) || target.find_first_not_of("-0123456789") == npos;
         });
}

/// Targets of the sequences or of their steps, and where they are.
struct Targets {
  std::vector<std::string> cells;
  /// Row of the file of each.
  std::vector<Index> places;
};

/// Whether a sequence has steps without a target and others whose targets differ.
bool have_gaps_and_differ(const Rows& rows, std::span<const std::size_t> order,
                          const std::vector<std::int32_t>& lengths) {
  std::size_t at = 0;
  for (const std::int32_t length : lengths) {
    const std::string* first = nullptr;
    bool have_gaps = false, differ = false;
    for (const std::size_t row : order.subspan(at, static_cast<std::size_t>(length))) {
      const std::string& target = rows.targets[row];
      if (is_missing(target)) {
        have_gaps = true;
      } else if (first == nullptr) {
        first = &target;
      } else {
        differ = differ || target != *first;
      }
    }
    if (have_gaps && differ) return true;
    at += static_cast<std::size_t>(length);
  }
  return false;
}

/// Takes the groups and the targets. What a sequence has once, each of its rows must say alike.
Targets take_targets(const CsvReader& reader, const Columns& columns, const Rows& rows,
                     const std::vector<std::size_t>& order, bool row_is_step, SequenceFile& result) {
  Targets targets;
  std::size_t at = 0;
  for (const std::int32_t length : result.lengths) {
    const std::size_t count = row_is_step ? static_cast<std::size_t>(length) : 1;
    const std::size_t first = order[at];
    if (columns.group != npos) result.groups.push_back(rows.group[first]);
    for (const std::size_t row : std::span(order).subspan(at, count)) {
      const auto check_alike = [&](std::size_t column, const auto& values) {
        if (values[row] == values[first]) return;
        reader.fail(
            fmt::format("row {}, column '{}': it differs from row {} of the same sequence; expected the "
                        "same{}",
                        rows.places[row], columns.names[column], rows.places[first],
                        column == columns.target ? ", or --goal step-class or step-value" : ""));
      };
      if (columns.group != npos) check_alike(columns.group, rows.group);
      if (columns.target == npos) continue;
      if (!result.every_step) check_alike(columns.target, rows.targets);
      if (!result.every_step && row != first) continue;
      targets.cells.push_back(rows.targets[row]);
      targets.places.push_back(rows.places[row]);
    }
    at += count;
  }
  return targets;
}

/// Targets that are numbers.
Tensor<float> values_of(const CsvReader& reader, const Targets& targets, const std::string& column,
                        const SequencesOptions& options) {
  Tensor<float> values(Shape{std::ssize(targets.cells), 1});
  for (std::size_t i = 0; i < targets.cells.size(); ++i) {
    const std::optional<float> number = number_in(targets.cells[i]);
    if (number && std::isnan(*number) && options.missing == Missing::refuse) {
      reader.fail(fmt::format(
          "row {}, column '{}': it is missing; expected a number, or --missing zero, with which it does not "
          "count",
          targets.places[i], column));
    }
    if (!number || std::isinf(*number)) {
      reader.fail(fmt::format("row {}, column '{}': {}; expected a finite number for --goal {}",
                              targets.places[i], column, why_refused(targets.cells[i], number),
                              name_of(options.goal)));
    }
    values.data()[i] = *number;
  }
  return values;
}

/// Targets that are classes. A step without one does not count.
Tensor<std::int32_t> classes_of(const CsvReader& reader, Targets targets, const std::string& column,
                                const std::vector<std::string>& known, SequenceFile& result) {
  const auto refuse = [&](std::size_t i, const std::string& why) {
    reader.fail(fmt::format("row {}, column '{}': {}", targets.places[i], column, why));
  };
  for (std::size_t i = 0; i < targets.cells.size(); ++i) {
    if (!is_missing(targets.cells[i])) continue;
    if (!result.every_step)
      refuse(i, "the class is missing; expected one for each sequence: leave out those that have none");
    targets.cells[i].clear();
  }
  const std::vector<std::int32_t> numbers = class_numbers(targets.cells, known, refuse, result.class_names);
  Tensor<std::int32_t> classes(Shape{std::ssize(numbers)});
  std::ranges::copy(numbers, classes.begin());
  return classes;
}

/// Takes texts as sequences of symbols. The symbols are those of the training data, so that it is drawn now.
void take_texts(const CsvReader& reader, const SequencesOptions& options, const Rows& rows,
                const KnownNames& known, Wanted what, SequenceFile& result) {
  std::vector<FileText> texts;
  for (std::size_t row = 0; row < rows.texts.size(); ++row)
    texts.push_back({rows.texts[row], rows.places[row]});
  const bool is_next = options.goal == Goal::forecast;
  const Ends ends = !is_next ? Ends::none : what == Wanted::inputs ? Ends::before : Ends::around;
  std::vector<std::int32_t> parts;
  if (what == Wanted::everything) {
    try {
      parts = drawn_parts(std::ssize(texts), {result.groups.data(), Shape{std::ssize(result.groups)}},
                          data_options(options), options.validation_data.empty(), options.test_data.empty());
    } catch (const ValueError& error) {
      reader.fail(error.what());
    }
  }
  read_symbols(options, texts, parts, ends, known, result);
}

/// Takes the sequences of numbers. Returns the order of the rows in them.
std::vector<std::size_t> take_numbers(const Columns& columns, const Rows& rows, SequenceFile& result) {
  const std::size_t width = columns.inputs.size();
  const bool row_is_step = columns.id != npos;
  std::vector<std::size_t> order(rows.places.size());
  if (row_is_step) {
    order = order_of(rows, result.lengths);
    result.names.resize(rows.sequences.size());
    for (const auto& [name, number] : rows.sequences) result.names[static_cast<std::size_t>(number)] = name;
  } else {
    std::iota(order.begin(), order.end(), std::size_t{0});
    result.lengths.assign(order.size(), static_cast<std::int32_t>(width));
  }
  if (!rows.texts.empty()) return order;
  Tensor<float> features;
  features.reserve(row_is_step ? Shape{std::ssize(order), static_cast<Index>(width)}
                               : Shape{std::ssize(rows.features), 1});
  for (std::size_t i = 0; i < order.size(); ++i)
    std::copy_n(rows.features.data() + order[i] * width, width, features.data() + i * width);
  result.features = std::move(features);
  return order;
}

}  // namespace

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

SequenceFile read_csv(const SequencesOptions& options, const KnownNames& known, Wanted what) {
  CsvReader reader(options.data, what);
  std::vector<std::string_view> cells;
  const bool has_texts = options.text != TextUnit::automatic;
  if (!reader.next(cells)) reader.fail("it is empty; expected rows of cells with commas between");
  for (const auto& [separator, name] : {std::pair{';', "semicolons"}, {'\t', "tabs"}}) {
    if (cells.size() > 1 || has_texts || cells.front().find(separator) == npos) continue;
    reader.fail(fmt::format(
        "its first row has {} and no comma; expected commas between cells, and a point in numbers", name));
  }
  // The first row is a header unless all of it is numbers.
  const bool has_header = std::ranges::any_of(cells, [](std::string_view cell) { return !number_in(cell); });
  std::vector<std::string> names;
  for (const std::string_view cell : cells)
    names.push_back(has_header ? std::string(without_blanks(cell)) : std::to_string(names.size() + 1));
  const Columns columns = columns_of(reader, names, options, what);
  const bool row_is_step = columns.id != npos;
  const Goal goal = options.goal;
  SequenceFile result{.every_step = goal == Goal::step_classes || goal == Goal::step_values};
  if (!row_is_step && result.every_step && what == Wanted::everything)
    reader.fail("a row is a sequence with one target; --goal step-class and step-value need --id");
  if (has_texts && (row_is_step || columns.inputs.size() != 1)) {
    reader.fail(fmt::format(
        "--text needs one column with the text of each row, and {}; expected --inputs "
        "with one name, and no --id",
        row_is_step ? "--id was given" : fmt::format("{} columns are read", columns.inputs.size())));
  }
  // 1. Sequences of rows, or of the cells of a row.
  const Rows rows = read_rows(reader, columns, options, cells, has_header);
  const std::vector<std::size_t> order = take_numbers(columns, rows, result);
  for (const std::size_t c : columns.inputs) result.input_names.push_back(columns.names[c]);
  // 2. Targets.
  if (goal == Goal::automatic && row_is_step && columns.target != npos && options.missing != Missing::refuse)
    result.every_step = have_gaps_and_differ(rows, order, result.lengths);
  const Targets targets = take_targets(reader, columns, rows, order, row_is_step, result);
  if (has_texts) take_texts(reader, options, rows, known, what, result);
  if (columns.target == npos) return result;
  const bool has_classes = goal == Goal::classes || goal == Goal::step_classes ||
                           (goal == Goal::automatic && are_whole_or_text(targets.cells));
  const std::string& column = columns.names[columns.target];
  if (has_classes) {
    result.classes = classes_of(reader, targets, column, known.classes, result);
  } else {
    result.values = values_of(reader, targets, column, options);
  }
  return result;
}

}  // namespace orthornn
