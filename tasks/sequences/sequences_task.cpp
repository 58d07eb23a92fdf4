#include "orthornn/tasks/sequences_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/fields_json.hpp"
#include "orthornn/core/error.hpp"
#include "tasks/data_part.hpp"
#include "tasks/sequences/loaded_sequences.hpp"
#include "tasks/sequences/sequence_file.hpp"

namespace orthornn {
namespace {

constexpr const char* statistics_part = "statistics";

bool is_text_file(const SequencesOptions& options) { return options.data.extension() == ".txt"; }

/// The options with what a text file has by default.
SequencesOptions completed(SequencesOptions options) {
  constexpr Index text_length = 128;
  if (!is_text_file(options)) return options;
  if (options.goal == Goal::automatic) options.goal = Goal::forecast;
  if (options.text == TextUnit::automatic) options.text = TextUnit::characters;
  if (options.length == 0) options.length = text_length;
  return options;
}

Json json_of(const ColumnMaps& maps) { return {{"shift", maps.shift}, {"divisor", maps.divisor}}; }

ColumnMaps maps_from(const Json& json) {
  ColumnMaps maps;
  for (const auto& [key, to] : {std::pair{"shift", &maps.shift}, std::pair{"divisor", &maps.divisor}}) {
    for (const Json& number : array_member(json, key)) {
      if (!number.is_number()) refuse_member(key, "numbers", number);
      to->push_back(number.get<float>());
      if (!std::isfinite(to->back())) refuse_member(key, "finite numbers", number);
    }
  }
  if (maps.shift.size() != maps.divisor.size() || std::ranges::count(maps.divisor, 0.0F) > 0)
    throw ValueError("expected as many 'divisor' as 'shift', and no 'divisor' of 0");
  return maps;
}

/// The symbols of a text; null where the data are none.
std::unique_ptr<const SymbolTable> symbol_table_in(const Json& json) {
  if (!json.contains("text")) return nullptr;
  std::vector<std::string> names;
  for (const Json& name : array_member(json, "symbol_names")) {
    if (!name.is_string()) refuse_member("symbol_names", "texts", name);
    names.push_back(name.get<std::string>());
  }
  return std::make_unique<SymbolTable>(named_member<TextUnit>(json, "text"), boolean_member(json, "text_end"),
                                       std::move(names));
}

/// Classes that are numbers in the file have these as their names, unless they are very many.
std::vector<std::string> class_names_of(const SequenceFile& file, Index classes) {
  constexpr Index most = 100000;
  std::vector<std::string> names = file.class_names;
  if (!names.empty() || file.classes.empty() || classes > most) return names;
  for (Index c = 0; c < classes; ++c) names.push_back(std::to_string(c));
  return names;
}

bool is_whole(const std::string& text) {
  const std::size_t digits = text.starts_with('-') ? 1 : 0;
  return text.size() > digits && text.size() < 18 &&
         text.find_first_not_of("0123456789", digits) == std::string::npos;
}

}  // namespace

DataTaskOptions data_options(const SequencesOptions& options) {
  return {.ahead = options.goal == Goal::forecast ? options.ahead : 0,
          .cut = options.length,
          .normalization = options.normalization,
          .missing = options.missing,
          .validation_part = options.validation_part,
          .test_part = options.test_part,
          .batch = options.batch,
          .seed = options.seed};
}

std::vector<std::int32_t> class_numbers(const std::vector<std::string>& names,
                                        const std::vector<std::string>& known,
                                        std::vector<std::string>& class_names) {
  class_names = known;
  if (known.empty()) {
    const std::set<std::string> all(names.begin(), names.end());
    class_names.assign(all.begin(), all.end());
    if (std::ranges::all_of(class_names, is_whole))
      std::ranges::sort(class_names, {}, [](const std::string& name) { return std::stoll(name); });
  }
  std::map<std::string_view, std::int32_t> numbers;
  for (const std::string& name : class_names)
    numbers.emplace(name, static_cast<std::int32_t>(numbers.size()));
  std::vector<std::int32_t> result;
  for (const std::string& name : names) {
    const auto found = numbers.find(name);
    if (found == numbers.end())
      throw ValueError(fmt::format("the class '{}' is not among those that the model was trained with",
                                   name.substr(0, 40)));
    result.push_back(found->second);
  }
  return result;
}

namespace {

/// Throws for options that a file of this form does not have.
void check_form(const SequencesOptions& options, bool is_csv, Wanted what) {
  for (const auto& [flag, value] : {std::pair{"--inputs", options.inputs},
                                    {"--target", options.target},
                                    {"--id", options.id},
                                    {"--group-by", options.group_by}}) {
    if (is_csv || value.empty() || what == Wanted::inputs) continue;
    throw ValueError(fmt::format("{} is for CSV files, and '{}' {}", flag, options.data.string(),
                                 is_text_file(options) ? "is a text" : "has arrays with names"));
  }
  if (is_text_file(options) && options.goal != Goal::forecast) {
    throw ValueError(fmt::format("--goal {} is not for a text; expected forecast, the next symbol",
                                 name_of(options.goal)));
  }
  if (!is_csv && !is_text_file(options) && options.text != TextUnit::automatic) {
    throw ValueError(fmt::format("--text is for .txt and CSV files, and '{}' has arrays with names",
                                 options.data.string()));
  }
}

/// Divides the only sequence in time: training data, then validation data, then test data.
void divide_in_time(const SequencesOptions& options, SequenceFile& file) {
  if (file.lengths.size() != 1) {
    throw FileError(
        fmt::format("{}: --length cuts one long sequence into pieces, and it has {} sequences; "
                    "expected one, or no --length",
                    options.data.string(), file.lengths.size()));
  }
  const auto all = static_cast<double>(file.lengths.front());
  const auto steps = [&](double share) { return static_cast<std::int32_t>(std::lround(share * all)); };
  const std::int32_t validation = steps(options.validation_part), test = steps(options.test_part);
  const std::int32_t training = file.lengths.front() - validation - test;
  if (training < 1 || validation < 1 || test < 1) {
    throw FileError(
        fmt::format("{}: its sequence has {} steps, of which {} are for validation and {} for "
                    "test; expected some in each part",
                    options.data.string(), file.lengths.front(), validation, test));
  }
  file.lengths = {training, validation, test};
  file.parts = {0, 1, 2};
  file.groups.clear();
}

}  // namespace

SequenceFile read_sequence_file(const SequencesOptions& options, const KnownNames& known, Wanted what) {
  const std::filesystem::path& path = options.data;
  constexpr const char* endings = ".h5, .hdf5, .npz, .csv or .txt";
  if (path.empty())
    throw FileError("task sequences needs its data, but no file was given; name one by --data FILE");
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status))
    throw FileError(fmt::format("{}: there is no such file; expected an {} file", path.string(), endings));
  const std::string extension = path.extension().string();
  const bool has_arrays = extension == ".h5" || extension == ".hdf5" || extension == ".npz";
  const bool is_csv = extension == ".csv";
  if (!has_arrays && !is_csv && !is_text_file(options)) {
    throw FileError(fmt::format("{}: its name ends in '{}'; expected {}", path.string(), extension, endings));
  }
  check_form(options, is_csv, what);
  SequenceFile file = has_arrays ? read_arrays(options, what)
                      : is_csv   ? read_csv(options, known, what)
                                 : read_text(options, known, what);
  if (options.length > 0 && what == Wanted::everything && !is_text_file(options))
    divide_in_time(options, file);
  return file;
}

struct SequencesTask::File : SequenceFile {};

SequencesTask::SequencesTask(const SequencesOptions& options)
    : DataTask((check_fields("task sequences", options), data_options(completed(options)))),
      options_(options) {
  if (!options.parts.empty()) read_parts(std::exchange(options_.parts, {}));
}

SequencesTask::~SequencesTask() = default;

void SequencesTask::read_parts(const std::vector<TaskPart>& parts) {
  checksum_ = data_part::checksum_in("sequences", parts);
  const auto part = std::ranges::find(parts, std::string(statistics_part), &TaskPart::name);
  try {
    if (part == parts.end()) throw ValueError("it is missing");
    const Json json = parse_json(part->bytes);
    DataStatistics known{.features = maps_from(object_member(json, "features")),
                         .values = maps_from(object_member(json, "values")),
                         .symbols = integer_member(json, "symbols"),
                         .classes = integer_member(json, "classes")};
    for (const Json& name : array_member(json, "class_names")) {
      if (!name.is_string()) refuse_member("class_names", "texts", name);
      class_names_.push_back(name.get<std::string>());
    }
    symbol_table_ = symbol_table_in(json);
    if (symbol_table_ != nullptr && symbol_table_->count() != known.symbols)
      throw ValueError(
          fmt::format("it has {} symbols and the names of {}", known.symbols, symbol_table_->count()));
    constexpr Index most = Index{1} << 30;
    if (known.symbols < 0 || known.symbols > most || known.classes < 0 || known.classes > most)
      throw ValueError("its numbers of symbols and classes are not from 0 to 2^30");
    use(known);
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("task sequences: the part '{}': {}", statistics_part, error.what()));
  }
}

void SequencesTask::load() const {
  if (has_data()) return;
  auto file = std::make_unique<File>();
  static_cast<SequenceFile&>(*file) =
      read_sequence_file(completed(options_), {class_names_, symbol_table_.get()}, Wanted::everything);
  Content content(
      SequenceView{.lengths = {file->lengths.data(), Shape{std::ssize(file->lengths)}},
                   .every_step = file->every_step,
                   .groups = {file->groups.data(), Shape{std::ssize(file->groups)}},
                   .parts = {file->parts.data(), Shape{std::ssize(file->parts)}},
                   .symbol_count = file->symbol_table != nullptr ? file->symbol_table->count() : 0});
  content.features = file->features;
  content.symbols = file->symbols;
  content.classes = file->classes;
  content.values = file->values;
  const bool is_trained = !checksum_.empty();
  std::string checksum = checksum_;
  try {
    const DataStatistics known = statistics();
    use(content, is_trained ? &known : nullptr, &checksum);
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    throw FileError(fmt::format("{}: {}", options_.data.string(), error.what()));
  }
  if (!is_trained) class_names_ = class_names_of(*file, statistics().classes);
  symbol_table_ = std::move(file->symbol_table);
  checksum_ = std::move(checksum);
  file_ = std::move(file);
}

SequenceInputs SequencesTask::read_inputs(const std::filesystem::path& file) const {
  SequencesOptions options = options_;
  options.data = file;
  if (symbol_table_ != nullptr) options.text = symbol_table_->unit();
  SequenceFile found =
      read_sequence_file(completed(options), {class_names_, symbol_table_.get()}, Wanted::inputs);
  SequenceInputs inputs{.lengths = std::move(found.lengths), .names = std::move(found.names)};
  const auto take = []<class T>(const StoredNumbers<T>& from, Tensor<T>& to) {
    if (from.empty()) return;
    Tensor<T> room;
    const std::span<const T> all = from.read(0, from.size(), room);
    to.reserve(from.shape());
    std::ranges::copy(all, to.begin());
  };
  take(found.features, inputs.features);
  take(found.symbols, inputs.symbols);
  return inputs;
}

std::string SequencesTask::config() const {
  return json_object(options_, "task").dump(-1, ' ', /*ensure_ascii=*/true);
}

std::vector<TaskPart> SequencesTask::parts() const {
  if (checksum_.empty()) load();
  const DataStatistics& known = statistics();
  Json json = {{"features", json_of(known.features)},
               {"values", json_of(known.values)},
               {"symbols", known.symbols},
               {"classes", known.classes},
               {"class_names", class_names_}};
  if (symbol_table_ != nullptr) {
    json["text"] = name_of(symbol_table_->unit());
    json["text_end"] = symbol_table_->end().has_value();
    json["symbol_names"] = symbol_table_->names();
  }
  return {{statistics_part, json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace)},
          {data_part::name, checksum_}};
}

const SymbolTable& SequencesTask::symbol_table() const {
  if (symbol_table_ == nullptr && !has_data()) load();
  if (symbol_table_ == nullptr) throw ValueError("task sequences: the data are no text");
  return *symbol_table_;
}

std::vector<std::int32_t> SequencesTask::symbols_of(std::string_view text) const {
  std::vector<std::int32_t> symbols;
  symbol_table().read(text, symbols);
  return symbols;
}

std::string SequencesTask::text_of(std::span<const std::int32_t> symbols) const {
  return symbol_table().text(symbols);
}

std::optional<std::int32_t> SequencesTask::text_end() const { return symbol_table().end(); }

}  // namespace orthornn
