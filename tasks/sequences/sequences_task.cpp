#include "orthornn/tasks/sequences_task.hpp"

#include <fmt/format.h>
#include <zlib.h>

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
#include "tasks/sequences/sequence_file.hpp"

namespace orthornn {
namespace {

constexpr const char* statistics_part = "statistics";

DataTaskOptions data_options(const SequencesOptions& options) {
  return {.ahead = options.goal == Goal::forecast ? options.ahead : 0,
          .normalization = options.normalization,
          .missing = options.missing,
          .validation_part = options.validation_part,
          .test_part = options.test_part,
          .batch = options.batch,
          .seed = options.seed};
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

std::string checksum_of(const SequenceFile& file) {
  uLong crc = 0;
  const auto add = [&](const auto& numbers) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(numbers.data()),
                  static_cast<std::size_t>(std::ssize(numbers)) * sizeof(*numbers.data()));
  };
  add(file.lengths);
  add(file.groups);
  for (const Tensor<float>* tensor : {&file.features, &file.values})
    add(std::span(tensor->data(), static_cast<std::size_t>(tensor->size())));
  for (const Tensor<std::int32_t>* tensor : {&file.symbols, &file.classes})
    add(std::span(tensor->data(), static_cast<std::size_t>(tensor->size())));
  return fmt::format("{} sequences, CRC-32 {:08x}", file.lengths.size(), crc);
}

bool is_whole(const std::string& text) {
  const std::size_t digits = text.starts_with('-') ? 1 : 0;
  return text.size() > digits && text.size() < 18 &&
         text.find_first_not_of("0123456789", digits) == std::string::npos;
}

}  // namespace

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

SequenceFile read_sequence_file(const SequencesOptions& options,
                                const std::vector<std::string>& known_classes) {
  const std::filesystem::path& path = options.data;
  if (path.empty())
    throw FileError("task sequences needs its data, but no file was given; name one by --data FILE");
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status))
    throw FileError(fmt::format("{}: there is no such file; name an .h5, .hdf5, .npz or .csv file by --data",
                                path.string()));
  const std::string extension = path.extension().string();
  const bool has_arrays = extension == ".h5" || extension == ".hdf5" || extension == ".npz";
  if (!has_arrays && extension != ".csv") {
    throw FileError(fmt::format("{}: its name ends in '{}'; expected .h5, .hdf5, .npz or .csv", path.string(),
                                extension));
  }
  for (const auto& [flag, value] : {std::pair{"--inputs", options.inputs},
                                    {"--target", options.target},
                                    {"--id", options.id},
                                    {"--group-by", options.group_by}}) {
    if (has_arrays && !value.empty())
      throw ValueError(
          fmt::format("{} is for CSV files, and '{}' has arrays with names", flag, path.string()));
  }
  SequenceFile file = has_arrays ? read_arrays(options) : read_csv(options, known_classes);
  file.checksum = checksum_of(file);
  return file;
}

struct SequencesTask::File : SequenceFile {};

SequencesTask::SequencesTask(const SequencesOptions& options)
    : DataTask((check_fields("task sequences", options), data_options(options))), options_(options) {
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
  static_cast<SequenceFile&>(*file) = read_sequence_file(options_, class_names_);
  if (!checksum_.empty() && checksum_ != file->checksum) {
    throw FileError(
        fmt::format("{} has other data than those that the model was trained with ({} there, {} here); name "
                    "the data of the "
                    "training, or use predict for data of your own",
                    options_.data.string(), checksum_, file->checksum));
  }
  const SequenceView view{
      .features = file->features,
      .symbols = file->symbols,
      .lengths = {file->lengths.data(), Shape{std::ssize(file->lengths)}},
      .every_step = file->every_step,
      .classes = file->classes,
      .values = file->values,
      .groups = {file->groups.data(), Shape{std::ssize(file->groups)}},
  };
  try {
    const DataStatistics known = statistics();
    use(view, checksum_.empty() ? nullptr : &known);
  } catch (const Error& error) {
    throw FileError(fmt::format("{}: {}", options_.data.string(), error.what()));
  }
  class_names_ = file->class_names;
  checksum_ = file->checksum;
  file_ = std::move(file);
}

std::string SequencesTask::config() const {
  return json_object(options_, "task").dump(-1, ' ', /*ensure_ascii=*/true);
}

std::vector<TaskPart> SequencesTask::parts() const {
  if (checksum_.empty()) load();
  const DataStatistics& known = statistics();
  const Json json = {{"features", json_of(known.features)},
                     {"values", json_of(known.values)},
                     {"symbols", known.symbols},
                     {"classes", known.classes},
                     {"class_names", class_names_}};
  return {{statistics_part, json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace)},
          {data_part::name, checksum_}};
}

}  // namespace orthornn
