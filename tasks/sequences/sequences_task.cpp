#include "orthornn/tasks/sequences_task.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/fields_json.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"
#include "tasks/data_part.hpp"
#include "tasks/sequences/class_weights.hpp"
#include "tasks/sequences/loaded_sequences.hpp"
#include "tasks/sequences/number_survey.hpp"
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

std::vector<float> numbers_member(const Json& json, const char* key) {
  std::vector<float> numbers;
  for (const Json& number : array_member(json, key)) {
    if (!number.is_number()) refuse_member(key, "numbers", number);
    numbers.push_back(number.get<float>());
    if (!std::isfinite(numbers.back())) refuse_member(key, "finite numbers", number);
  }
  return numbers;
}

ColumnMaps maps_from(const Json& json) {
  const ColumnMaps maps{.shift = numbers_member(json, "shift"), .divisor = numbers_member(json, "divisor")};
  if (maps.shift.size() != maps.divisor.size() || std::ranges::count(maps.divisor, 0.0F) > 0)
    throw ValueError("expected as many 'divisor' as 'shift', and no 'divisor' of 0");
  return maps;
}

std::vector<std::string> texts_member(const Json& json, const char* key) {
  std::vector<std::string> texts;
  for (const Json& text : array_member(json, key)) {
    if (!text.is_string()) refuse_member(key, "texts", text);
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

/// The symbols of a text; null where the data are none.
std::unique_ptr<const SymbolTable> symbol_table_in(const Json& json) {
  if (!json.contains("text")) return nullptr;
  return std::make_unique<SymbolTable>(named_member<TextUnit>(json, "text"), boolean_member(json, "text_end"),
                                       texts_member(json, "symbol_names"));
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
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  return text.size() > sign && text.size() < 18 &&
         text.find_first_not_of("0123456789", sign) == std::string::npos;
}

}  // namespace

DataTaskOptions data_options(const SequencesOptions& options) {
  const bool balanced = chosen_class_weights(options.class_weights).balanced;
  return {.ahead = options.goal == Goal::forecast ? options.ahead : 0,
          .cut = options.length,
          .normalization = options.normalization,
          .missing = options.missing,
          .balanced = balanced,
          .validation_part = options.validation_part,
          .test_part = options.test_part,
          .batch = options.batch,
          .seed = options.seed};
}

std::vector<std::int32_t> class_numbers(
    const std::vector<std::string>& names, const std::vector<std::string>& known,
    const std::function<void(std::size_t i, const std::string& why)>& refuse,
    std::vector<std::string>& class_names) {
  class_names = known;
  if (known.empty()) {
    std::set<std::string> all(names.begin(), names.end());
    all.erase("");
    class_names.assign(all.begin(), all.end());
    if (std::ranges::all_of(class_names, is_whole))
      std::ranges::sort(class_names, {}, [](const std::string& name) { return std::stoll(name); });
  }
  std::map<std::string_view, std::int32_t> numbers = {{"", -1}};
  for (std::size_t i = 0; i < class_names.size(); ++i)
    numbers.emplace(class_names[i], static_cast<std::int32_t>(i));
  std::vector<std::int32_t> result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = numbers.find(names[i]);
    if (found == numbers.end()) {
      refuse(i,
             fmt::format("the class '{}' is not among the {} classes of the training data; expected one of "
                         "these: leave the row out, or train on such rows too",
                         names[i].substr(0, 40), class_names.size()));
    }
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

/// Throws for options that mean nothing for the training data.
void check_meaning(const SequencesOptions& options, const SequenceFile& file) {
  const auto refuse = [&](const char* flag, const char* what) {
    throw ValueError(
        fmt::format("{} is for {}, and '{}' has none; leave it out", flag, what, options.data.string()));
  };
  if (options.goal != Goal::forecast && options.ahead != 1)
    throw ValueError(fmt::format("--ahead is for --goal forecast, and {} is learned; leave it out",
                                 options.goal == Goal::automatic ? "a target" : name_of(options.goal)));
  if (options.vocabulary > 0 && file.symbol_table == nullptr) refuse("--vocabulary", "symbols of a text");
  if (options.missing != Missing::refuse && file.features.empty() && file.values.empty())
    refuse("--missing", "numbers");
}

/// Divides the only sequence in time: training data, then validation data, then test data.
void divide_in_time(const SequencesOptions& options, SequenceFile& file) {
  if (file.lengths.size() != 1) {
    throw FileError(
        fmt::format("{}: --length cuts one long sequence into pieces, and it has {} sequences; "
                    "expected one, or no --length",
                    options.data.string(), file.lengths.size()));
  }
  file.validation = options.validation_data.empty() ? 1 : 0;
  file.test = options.test_data.empty() ? 1 : 0;
  const auto all = static_cast<double>(file.lengths.front());
  const auto steps = [&](Index is_here, double share) {
    return is_here > 0 ? static_cast<std::int32_t>(std::max(1L, std::lround(share * all))) : 0;
  };
  const std::int32_t validation = steps(file.validation, options.validation_part),
                     test = steps(file.test, options.test_part);
  const std::int32_t training = file.lengths.front() - validation - test;
  if (training < 1) {
    throw FileError(
        fmt::format("{}: its sequence has {} steps, of which {} are for validation and {} for test; expected "
                    "some to train on",
                    options.data.string(), file.lengths.front(), validation, test));
  }
  file.lengths = {training, validation, test};
  std::erase(file.lengths, 0);
  file.groups.clear();
}

}  // namespace

SequenceFile read_sequence_file(const SequencesOptions& options, const KnownNames& known, Wanted what) {
  const std::filesystem::path& path = options.data;
  constexpr const char* endings = ".h5, .hdf5, .npz, .csv or .txt";
  if (path.empty())
    throw FileError("task sequences needs its data, but no file was given; name one by --data FILE");
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status)) {
    throw FileError(fmt::format(
        "{}: {}; expected an {} file", path.string(),
        std::filesystem::exists(path, status) ? "it is no file" : "there is no such file", endings));
  }
  const std::string extension = path.extension().string();
  const bool has_arrays = extension == ".h5" || extension == ".hdf5" || extension == ".npz";
  const bool is_csv = extension == ".csv";
  if (!has_arrays && !is_csv && !is_text_file(options)) {
    throw FileError(fmt::format("{}: its name ends in '{}'; expected {}", path.string(), extension, endings));
  }
  check_form(options, is_csv, what);
  const bool is_text = is_text_file(options) || (is_csv && options.text != TextUnit::automatic);
  if (is_text && what != Wanted::everything && known.symbols == nullptr) {
    throw FileError(
        fmt::format("{}: it is a text, and the training data are none; expected a file of the form "
                    "of the training data",
                    path.string()));
  }
  SequenceFile file = has_arrays ? read_arrays(options, what)
                      : is_csv   ? read_csv(options, known, what)
                                 : read_text(options, known, what);
  if (options.length > 0 && what == Wanted::everything && !is_text_file(options))
    divide_in_time(options, file);
  return file;
}

/// What all files have: the sequences of the training file, then those of validation and test files.
struct SequencesTask::Files : SequenceFile {
  /// By the order of `sources`.
  std::array<std::string, 3> checksums = {};
  std::array<Index, 3> counts = {};
};

struct SequencesTask::Source {
  /// Name of its checksum in a model file.
  const char* part;
  const char* flag;
  const char* content;
  const std::filesystem::path& path;
};

SequencesTask::SequencesTask(const SequencesOptions& options)
    : DataTask((check_fields("task sequences", options), data_options(completed(options)))),
      options_(options) {
  if (completed(options).goal == Goal::forecast) chosen_class_weights(options.class_weights).check_unnamed();
  if (!options.parts.empty()) read_parts(std::exchange(options_.parts, {}));
}

SequencesTask::~SequencesTask() = default;

std::array<SequencesTask::Source, 3> SequencesTask::sources() const {
  return {{{data_part::name, "--data", "data", options_.data},
           {"validation", "--validation", "validation data", options_.validation_data},
           {"test", "--test", "test data", options_.test_data}}};
}

void SequencesTask::read_parts(const std::vector<TaskPart>& parts) {
  for (std::size_t k = 0; k < checksums_.size(); ++k) {
    const char* name = sources()[k].part;
    const bool is_there = std::ranges::find(parts, std::string(name), &TaskPart::name) != parts.end();
    if (k == 0 || is_there) checksums_[k] = data_part::checksum_in("sequences", parts, name);
  }
  const auto part = std::ranges::find(parts, std::string(statistics_part), &TaskPart::name);
  try {
    if (part == parts.end()) throw ValueError("it is missing");
    const Json json = parse_json(part->bytes);
    DataStatistics known{.features = maps_from(object_member(json, "features")),
                         .values = maps_from(object_member(json, "values")),
                         .symbols = integer_member(json, "symbols"),
                         .classes = integer_member(json, "classes"),
                         .class_weights = json.contains("class_weights")
                                              ? numbers_member(json, "class_weights")
                                              : std::vector<float>()};
    class_names_ = texts_member(json, "class_names");
    input_names_ = texts_member(json, "input_names");
    symbol_table_ = symbol_table_in(json);
    if (symbol_table_ != nullptr && symbol_table_->count() != known.symbols)
      throw ValueError(
          fmt::format("it has {} symbols and the names of {}", known.symbols, symbol_table_->count()));
    if (known.symbols < 0 || known.symbols > most_names || known.classes < 0 || known.classes > most_names)
      throw ValueError("its numbers of symbols and classes are not from 0 to 2^24");
    if (std::ranges::any_of(known.class_weights, [](float weight) { return weight <= 0; }))
      throw ValueError("its class weights are not above 0");
    use(known);
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("task sequences: the part '{}': {}", statistics_part, error.what()));
  }
}

void SequencesTask::check_given(const Source& source, const std::string& known) const {
  if (checksums_[0].empty() || known.empty() == source.path.empty()) return;
  if (known.empty()) {
    throw FileError(fmt::format("{}: the model was trained with a part of --data as its {}; leave out {}",
                                source.path.string(), source.content, source.flag));
  }
  throw FileError(
      fmt::format("task sequences needs its {}, but no file was given; name that of the training by {}",
                  source.content, source.flag));
}

void SequencesTask::read_into(Files& files) const {
  SequencesOptions options = completed(options_);
  const std::array<Source, 3> all = sources();
  const bool is_trained = !checksums_[0].empty();
  for (std::size_t k = 0; k < all.size(); ++k) check_given(all[k], checksums_[k]);
  // 1. The training data decide for all.
  static_cast<SequenceFile&>(files) =
      read_sequence_file(options, {class_names_, symbol_table_.get()}, Wanted::everything);
  if (!is_trained) check_meaning(options, files);
  if (options.goal == Goal::automatic) {
    options.goal = files.values.empty() ? (files.every_step ? Goal::step_classes : Goal::classes)
                                        : (files.every_step ? Goal::step_values : Goal::values);
  }
  files.counts[0] = std::ssize(files.lengths);
  // 2. The others.
  const KnownNames known{files.class_names, files.symbol_table.get()};
  std::vector<HeldOutFile> more;
  for (std::size_t k = 1; k < all.size(); ++k) {
    if (all[k].path.empty()) continue;
    options.data = all[k].path;
    const HeldOutFile& file = more.emplace_back(
        HeldOutFile{.path = all[k].path, .sequences = read_sequence_file(options, known, Wanted::held_out)});
    files.counts[k] = std::ssize(file.sequences.lengths);
    (k == 1 ? files.validation : files.test) = files.counts[k];
  }
  join_sequences(files, more);
  auto joined = more.begin();
  for (std::size_t k = 1; k < all.size(); ++k) {
    if (all[k].path.empty()) continue;
    files.checksums[k] = (joined++)->checksum;
    if (checksums_[k].empty() || checksums_[k] == files.checksums[k]) continue;
    throw FileError(fmt::format(
        "{} has other data than those that the model was trained with ({} there, {} here); name the data "
        "of the training by {}, or use predict for data of your own",
        all[k].path.string(), checksums_[k], files.checksums[k], all[k].flag));
  }
}

void SequencesTask::load() const {
  if (has_data()) return;
  auto files = std::make_unique<Files>();
  read_into(*files);
  Content content(
      SequenceView{.lengths = {files->lengths.data(), Shape{std::ssize(files->lengths)}},
                   .every_step = files->every_step,
                   .groups = {files->groups.data(), Shape{std::ssize(files->groups)}},
                   .validation = files->validation,
                   .test = files->test,
                   .symbol_count = files->symbol_table != nullptr ? files->symbol_table->count() : 0,
                   .symbol_bytes = {files->symbol_bytes.data(), Shape{std::ssize(files->symbol_bytes)}}});
  content.features = files->features;
  content.symbols = files->symbols;
  content.classes = files->classes;
  content.values = files->values;
  const bool is_trained = !checksums_[0].empty();
  files->checksums[0] = checksums_[0];
  try {
    if (!is_trained)
      content.class_weights = chosen_class_weights(options_.class_weights).by_number(files->class_names);
    const DataStatistics known = statistics();
    use(content, is_trained ? &known : nullptr, &files->checksums[0], files->class_names);
  } catch (const FileError&) {
    throw;
  } catch (const SequenceError& error) {
    // The file that has the sequence, and its number there.
    Index number = error.sequence;
    std::size_t k = 0;
    while (k + 1 < files->counts.size() && number >= files->counts[k]) number -= files->counts[k++];
    throw FileError(fmt::format("{}: sequence {}: {}", sources()[k].path.string(), number, error.why));
  } catch (const Error& error) {
    throw FileError(fmt::format("{}: {}", options_.data.string(), error.what()));
  }
  if (!is_trained) class_names_ = class_names_of(*files, statistics().classes);
  input_names_ = files->input_names;
  symbol_table_ = std::move(files->symbol_table);
  checksums_ = files->checksums;
  files_ = std::move(files);
}

SequenceInputs SequencesTask::read_inputs(const std::filesystem::path& file) const {
  SequencesOptions options = options_;
  options.data = file;
  if (symbol_table_ != nullptr) options.text = symbol_table_->unit();
  SequenceFile found =
      read_sequence_file(completed(options), {class_names_, symbol_table_.get()}, Wanted::inputs);
  if (!input_names_.empty() && !found.input_names.empty() && found.input_names != input_names_) {
    throw FileError(fmt::format("{}: it has the columns {}; expected {}, as the training data have",
                                file.string(), fmt::join(found.input_names, ", "),
                                fmt::join(input_names_, ", ")));
  }
  SequenceInputs inputs{.lengths = std::move(found.lengths), .names = std::move(found.names)};
  const auto take = []<class T>(const StoredNumbers<T>& from, Tensor<T>& to) {
    if (from.empty()) return;
    to.reserve(from.shape());
    T* next = to.begin();
    from.each_piece([&](std::span<const T> piece) { next = std::ranges::copy(piece, next).out; });
  };
  take(found.features, inputs.features);
  take(found.symbols, inputs.symbols);
  return inputs;
}

std::optional<SequenceInputs> SequencesTask::own_inputs(const std::filesystem::path& place) const {
  const std::string extension = place.extension().string();
  if (extension == ".h5" || extension == ".hdf5") {
    const Hdf5Reader reader(place.string());
    if (reader.has("x") || (!reader.has("inputs") && !reader.has("symbols"))) return std::nullopt;
  } else if (extension != ".npz" && extension != ".csv" && extension != ".txt") {
    return std::nullopt;
  }
  return read_inputs(place);
}

std::string SequencesTask::config() const {
  return json_object(options_, "task").dump(-1, ' ', /*ensure_ascii=*/true);
}

std::vector<TaskPart> SequencesTask::parts() const {
  if (checksums_[0].empty()) load();
  const DataStatistics& known = statistics();
  Json json = {{"features", json_of(known.features)},
               {"values", json_of(known.values)},
               {"symbols", known.symbols},
               {"classes", known.classes},
               {"class_names", class_names_},
               {"input_names", input_names_}};
  if (!known.class_weights.empty()) json["class_weights"] = known.class_weights;
  if (symbol_table_ != nullptr) {
    json["text"] = name_of(symbol_table_->unit());
    json["text_end"] = symbol_table_->end().has_value();
    json["symbol_names"] = symbol_table_->names();
  }
  std::vector<TaskPart> parts = {
      {statistics_part, json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace)}};
  const std::array<Source, 3> all = sources();
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (!checksums_[k].empty()) parts.push_back({all[k].part, checksums_[k]});
  }
  return parts;
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

std::optional<std::int32_t> SequencesTask::unknown_symbol() const { return symbol_table().unknown(); }

Index SequencesTask::ahead() const {
  const bool is_next =
      options_.goal == Goal::forecast || (options_.goal == Goal::automatic && data().symbols > 0 &&
                                          data().symbols == data().classes && text() != nullptr);
  return is_next ? options_.ahead : 0;
}

}  // namespace orthornn
