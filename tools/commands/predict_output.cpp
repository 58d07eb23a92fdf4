#include "commands/predict_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands/array_file.hpp"
#include "commands/output_file.hpp"
#include "commands/program.hpp"
#include "core/checked_json.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "support/csv_cell.hpp"

namespace orthornn::program {
namespace {

constexpr const char *csv_end = ".csv", *json_lines_end = ".jsonl";

/// The most probable class of each row of outputs, and the probabilities of all.
struct Classes {
  std::vector<std::int32_t> best = {};
  Tensor<float> probabilities = {};

  explicit Classes(const Tensor<float>& outputs) {
    const Index count = outputs.shape()[1];
    probabilities.reserve(outputs.shape());
    for (Index row = 0; row < outputs.shape()[0]; ++row) {
      const float* from = outputs.data() + row * count;
      const float* largest = std::max_element(from, from + count);
      best.push_back(static_cast<std::int32_t>(largest - from));
      double sum = 0;
      for (Index c = 0; c < count; ++c) sum += std::exp(static_cast<double>(from[c]) - *largest);
      for (Index c = 0; c < count; ++c)
        probabilities(row, c) = static_cast<float>(std::exp(static_cast<double>(from[c]) - *largest) / sum);
    }
  }
};

/// Predictions as text: a row for each sequence, or for each of its steps.
class PredictionText {
 public:
  PredictionText(const Predictions& found, const PredictionNames& names) : found_(found), names_(names) {
    if (names.has_classes) classes_.emplace(found.outputs);
    Index first = 0;
    for (Index i = 0; i < found.layout.count(); ++i) {
      if (i > 0 && file_of(i) != file_of(i - 1)) first = i;
      numbers_.push_back(i - first);
    }
  }

  std::string csv() const {
    std::string text = csv_header();
    for (Index i = 0; i < found_.layout.count(); ++i) {
      std::string start = names_.files.empty() ? "" : csv_cell(file_name(i)) + ",";
      start += names_.sequences.empty() ? std::to_string(number_in_file(i)) : csv_cell(sequence_name(i));
      for (Index t = 0; t < rows_of(i); ++t) {
        text += start;
        if (found_.every_step) fmt::format_to(std::back_inserter(text), ",{}", t);
        const Index row = row_of(i, t);
        if (classes_) text += "," + csv_cell(class_name(row));
        for (const float x : numbers(row)) fmt::format_to(std::back_inserter(text), ",{}", x);
        text += '\n';
      }
    }
    return text;
  }

  /// An object for each sequence, a line each.
  std::string json_lines() const {
    std::string text;
    for (Index i = 0; i < found_.layout.count(); ++i) {
      FloatJson json;
      if (!names_.files.empty()) json["file"] = file_name(i);
      json["sequence"] =
          names_.sequences.empty() ? FloatJson(number_in_file(i)) : FloatJson(sequence_name(i));
      if (classes_) json["class"] = json_of(i, [&](Index row) { return json_class(row); });
      if (classes_)
        json["probabilities"] = json_of(i, [&](Index row) { return json_row(classes_->probabilities, row); });
      json["outputs"] = json_of(i, [&](Index row) { return json_row(found_.outputs, row); });
      text += json.dump(-1, ' ', /*ensure_ascii=*/false, FloatJson::error_handler_t::replace) + "\n";
    }
    return text;
  }

 private:
  /// Numbers of it are written with the digits that a float has.
  using FloatJson = nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool, std::int64_t,
                                         std::uint64_t, float>;

  std::string csv_header() const {
    std::string header = fmt::format("{}sequence{}{}", names_.files.empty() ? "" : "file,",
                                     found_.every_step ? ",step" : "", classes_ ? ",class" : "");
    const Index count = found_.outputs.shape()[1];
    for (Index c = 0; c < count; ++c) {
      const std::string name = classes_    ? "probability_" + label_of(static_cast<std::size_t>(c))
                               : count > 1 ? fmt::format("output_{}", c)
                                           : "output";
      header += "," + csv_cell(name);
    }
    return header + "\n";
  }
  std::string label_of(std::size_t c) const {
    return names_.classes.empty() ? std::to_string(c) : names_.classes[c];
  }
  std::string class_name(Index row) const {
    return label_of(static_cast<std::size_t>(classes_->best[static_cast<std::size_t>(row)]));
  }
  FloatJson json_class(Index row) const {
    if (!names_.classes.empty()) return class_name(row);
    return classes_->best[static_cast<std::size_t>(row)];
  }
  static FloatJson json_row(const Tensor<float>& rows, Index row) {
    const TensorView<const float> numbers = rows.view()[row];
    return FloatJson(std::vector<float>(numbers.begin(), numbers.end()));
  }
  /// What `of_row` gives for a sequence, or for each of its steps.
  template <class OfRow>
  FloatJson json_of(Index i, const OfRow& of_row) const {
    if (!found_.every_step) return of_row(i);
    FloatJson steps = FloatJson::array();
    for (Index t = 0; t < rows_of(i); ++t) steps.push_back(of_row(row_of(i, t)));
    return steps;
  }
  TensorView<const float> numbers(Index row) const {
    return (classes_ ? classes_->probabilities : found_.outputs).view()[row];
  }
  Index rows_of(Index i) const {
    return found_.every_step ? found_.layout.lengths[static_cast<std::size_t>(i)] : 1;
  }
  Index row_of(Index i, Index t) const { return found_.every_step ? found_.layout.row(i, t) : i; }
  std::int32_t file_of(Index i) const { return names_.file_of[static_cast<std::size_t>(i)]; }
  const std::string& file_name(Index i) const { return names_.files[static_cast<std::size_t>(file_of(i))]; }
  const std::string& sequence_name(Index i) const { return names_.sequences[static_cast<std::size_t>(i)]; }
  Index number_in_file(Index i) const { return numbers_[static_cast<std::size_t>(i)]; }

  const Predictions& found_;
  const PredictionNames& names_;
  std::optional<Classes> classes_;
  std::vector<Index> numbers_;
};

/// These sizes, and those of a row behind them.
TensorView<const float> in_shape(const Tensor<float>& rows, Shape sizes) {
  for (int i = 1; i < rows.shape().rank(); ++i) sizes.append(rows.shape()[i]);
  return rows.view().reshaped(sizes);
}

std::string write_arrays(const std::filesystem::path& path, const Predictions& found,
                         const PredictionNames& names) {
  const StepLayout& layout = found.layout;
  const Shape steps = layout.shape(), rows = found.every_step ? steps : Shape{layout.count()};
  ArrayFile file(path, predictions_format);
  file.add(layout.steps_first ? "logits" : "outputs", in_shape(found.outputs, rows));
  if (names.has_classes) {
    const Classes classes(found.outputs);
    file.add("classes", TensorView<const std::int32_t>(classes.best.data(), rows));
    file.add("probabilities", in_shape(classes.probabilities, rows));
    if (!names.classes.empty()) file.add("class_names", names.classes);
  }
  if (const Shape& ahead = found.ahead.shape(); !found.ahead.empty()) {
    file.add("frames_ahead",
             found.ahead.view().reshaped({ahead[0], ahead[1], names.frame_size[0], names.frame_size[1]}));
  }
  if (layout.is_ragged()) file.add("lengths", layout.lengths);
  if (!names.files.empty()) {
    file.add("files", names.file_of);
    file.add("file_names", names.files);
  }
  if (!names.sequences.empty()) file.add("sequence_names", names.sequences);
  // With several layers, states have the number of their layer; the last states of the last layer also have
  // names without.
  const auto number = [&](Index cell) { return found.cells > 1 ? std::to_string(cell) : ""; };
  for (const auto& [name, cell, values] : found.last) {
    file.add(fmt::format("{}_last{}", name, number(cell)), values);
    if (found.cells > 1 && cell + 1 == found.cells) file.add(name + "_last", values);
  }
  for (const auto& [name, cell, values] : found.states)
    file.add(fmt::format("states/{}{}", name, number(cell)), in_shape(values, steps));
  file.commit();
  return file.text();
}

std::string write_text(const std::filesystem::path& file, const Predictions& found,
                       const PredictionNames& names) {
  const PredictionText text(found, names);
  write_file_atomically(file, file.extension() == csv_end ? text.csv() : text.json_lines(),
                        SymbolicLinks::replaced);
  return fmt::format("predictions of {} sequences", found.layout.count());
}

}  // namespace

void check_prediction_form(const std::filesystem::path& file, bool with_states) {
  const std::string end = file.extension().string();
  const bool is_text = end == csv_end || end == json_lines_end;
  if (!is_text && !is_array_file(file)) {
    throw UsageError(fmt::format("--out '{}': its name ends in '{}'; expected .h5, .hdf5, .npz, {} or {}",
                                 file.string(), end, csv_end, json_lines_end));
  }
  if (is_text && with_states) {
    throw UsageError(
        fmt::format("--states needs a file of arrays, and '{}' is text; give --out a name that ends in .h5, "
                    ".hdf5 or .npz",
                    file.string()));
  }
}

std::string write_predictions(const std::filesystem::path& file, const Predictions& found,
                              const PredictionNames& names) {
  return is_array_file(file) ? write_arrays(file, found, names) : write_text(file, found, names);
}

bool begins_predictions(std::string_view line) {
  if (line.starts_with('{')) {
    try {
      const Json json = parse_json(std::string(line));
      constexpr std::array names = {"file", "sequence", "class", "probabilities", "outputs"};
      const auto is_known = [&](const auto& member) {
        return std::ranges::find(names, member.key()) != names.end();
      };
      const auto members = json.items();
      return json.contains("sequence") && json.contains("outputs") && json["outputs"].is_array() &&
             std::all_of(members.begin(), members.end(), is_known);
    } catch (const ValueError&) {
      return false;
    }
  }
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto skip = [&](std::string_view column) {
    if (!line.starts_with(column)) return false;
    line.remove_prefix(column.size());
    return true;
  };
  skip("file,");
  if (!skip("sequence,")) return false;
  skip("step,");
  if (line.starts_with("class,probability_") || line.starts_with("class,\"probability_") || line == "output")
    return true;
  for (Index column = 0; skip(fmt::format("output_{}", column)); ++column) {
    if (line.empty()) return true;
    if (!skip(",")) return false;
  }
  return false;
}

}  // namespace orthornn::program
