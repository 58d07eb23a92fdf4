#include "commands/predict_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <variant>

#include "commands/suggestion.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/tasks/sequences_task.hpp"

namespace orthornn::program {
namespace {

/// What a model reads at a step: so many numbers, or no value for a symbol.
std::optional<Index> numbers_of(const ModelOptions& model) {
  const auto* dense = std::get_if<DenseInput>(&model.input);
  return dense == nullptr ? std::nullopt : std::optional(dense->size);
}

/// Throws FileError for sequences beside /x: a misnamed /lengths would change the outputs without a word.
void check_names(const std::string& file, const Hdf5Reader& reader) {
  for (const std::string& name : reader.names("/")) {
    if (name == "x" || name == "lengths") continue;
    throw FileError(fmt::format("{}: it has '/{}'{}; predict reads /x and /lengths, expected these alone",
                                file, name, did_you_mean("/" + name, {"/lengths"})));
  }
}

/// The lengths of sequences of T steps, or T for all.
std::vector<std::int32_t> read_lengths(const std::string& file, const Hdf5Reader& reader, Index steps,
                                       Index count) {
  if (!reader.has("lengths"))
    return std::vector<std::int32_t>(static_cast<std::size_t>(count), static_cast<std::int32_t>(steps));
  const Tensor<std::int32_t> lengths = reader.read<std::int32_t>("lengths");
  if (!(lengths.shape() == Shape{count})) {
    throw FileError(fmt::format("{}: /lengths has shape {}; expected [{}], one for each sequence of /x", file,
                                to_string(lengths.shape()), count));
  }
  for (Index b = 0; b < count; ++b) {
    if (lengths(b) >= 0 && lengths(b) <= steps) continue;
    throw FileError(
        fmt::format("{}: /lengths: sequence {} has length {}; expected 0 to {}", file, b, lengths(b), steps));
  }
  return {lengths.begin(), lengths.end()};
}

/// Rows of x [T, B, ..], one sequence after the other, [B T, ..].
template <class T>
Tensor<T> one_after_the_other(const Tensor<T>& x) {
  const Index steps = x.shape()[0], count = x.shape()[1];
  Shape rows{steps * count};
  for (int i = 2; i < x.shape().rank(); ++i) rows.append(x.shape()[i]);
  Tensor<T> result;
  result.reserve(rows);
  const Index row = x.size() / (steps * count);
  T* to = result.data();
  for (Index b = 0; b < count; ++b) {
    for (Index t = 0; t < steps; ++t) to = std::copy_n(x.data() + (t * count + b) * row, row, to);
  }
  return result;
}

/// The form with /x [T, B, ..].
PredictInput read_steps_first(const std::string& file, const Hdf5Reader& reader,
                              const std::optional<Index>& numbers) {
  check_names(file, reader);
  const Shape shape = reader.shape("x");
  if (shape.rank() != (numbers ? 3 : 2) || reader.is_integer("x") == numbers.has_value()) {
    throw FileError(
        fmt::format("{}: /x has shape {} of {}; this model reads {}", file, to_string(shape),
                    reader.is_integer("x") ? "integers" : "floats",
                    numbers ? fmt::format("floats [T, B, {}]", *numbers) : "integer symbols [T, B]"));
  }
  if (shape.count() == 0)
    throw FileError(fmt::format("{}: /x is empty, its shape is {}", file, to_string(shape)));
  PredictInput input{.lengths = read_lengths(file, reader, shape[0], shape[1]), .steps_first = shape[0]};
  if (numbers) {
    input.features = one_after_the_other(reader.read<float>("x"));
  } else {
    input.symbols = one_after_the_other(reader.read<std::int32_t>("x"));
  }
  return input;
}

/// A form of docs/own-data.md.
PredictInput read_own_sequences(const std::string& file, const std::optional<Index>& numbers,
                                const Task* task) {
  const auto* trained = dynamic_cast<const SequencesTask*>(task);
  SequenceInputs found = trained != nullptr ? trained->read_inputs(file) : SequencesTask().read_inputs(file);
  if (found.features.empty() == numbers.has_value()) {
    throw FileError(fmt::format(
        "{}: its steps are {}; this model reads {}", file, numbers ? "symbols" : "numbers",
        numbers ? fmt::format("{} numbers a step, an array 'inputs' or columns of a CSV file", *numbers)
                : "an array 'symbols' of whole numbers"));
  }
  return {.features = std::move(found.features),
          .symbols = std::move(found.symbols),
          .lengths = std::move(found.lengths),
          .names = std::move(found.names)};
}

PredictInput read_form(const std::string& file, const std::optional<Index>& numbers, const Task* task) {
  const std::string extension = std::filesystem::path(file).extension().string();
  if (extension == ".npz" || extension == ".csv" || extension == ".txt")
    return read_own_sequences(file, numbers, task);
  const Hdf5Reader reader(file);
  if (reader.has("x")) return read_steps_first(file, reader, numbers);
  if (!reader.has("inputs") && !reader.has("symbols"))
    throw FileError(fmt::format("{}: no dataset '/x', '/inputs' or '/symbols'", file));
  return read_own_sequences(file, numbers, task);
}

/// Brings the features of a file into the form that the model reads.
void prepare_features(const std::string& file, Index numbers, const Task* task, PredictInput& input) {
  Tensor<float>& features = input.features;
  if (task != nullptr) {
    try {
      features = task->own_features(features);
    } catch (const Error& error) {
      throw FileError(fmt::format("{}: {}", file, error.what()));
    }
  }
  const Index found = features.shape()[1];
  if (found != numbers && input.steps_first) {
    throw FileError(fmt::format("{}: /x has shape {}; this model reads floats [T, B, {}]", file,
                                to_string({*input.steps_first, input.count(), found}), numbers));
  }
  if (found != numbers) {
    throw FileError(fmt::format("{}: its steps have {} numbers; this model reads {}", file, found, numbers));
  }
  for (const float x : features) {
    if (!std::isfinite(x))
      throw FileError(
          fmt::format("{}: {} holds a value that is not finite", file, input.steps_first ? "/x" : "it"));
  }
}

/// Puts the steps of each sequence in the model's order.
template <class T>
void reorder(const Tensor<std::int32_t>& order, const PredictInput& input, Tensor<T>& rows) {
  if (rows.empty()) return;
  const Tensor<T> original = rows.copy();
  for (const Index start : input.starts) {
    for (Index t = 0; t < order.size(); ++t)
      copy<T>(original.view().slice(start + order(t), 1), rows.view().slice(start + t, 1));
  }
}

/// Rows of some sequences as [T, B, ..], with zeros beyond their ends.
template <class T>
void fill_steps(const PredictInput& input, const Tensor<T>& rows, Index first, Index count, Tensor<T>& to) {
  const Index row = Shape(rows.shape().begin() + 1, rows.shape().end()).count();
  for (Index b = 0; b < count; ++b) {
    const auto i = static_cast<std::size_t>(first + b);
    const T* from = rows.data() + input.starts[i] * row;
    for (Index t = 0; t < input.lengths[i]; ++t, from += row)
      std::copy_n(from, row, to.data() + (t * count + b) * row);
  }
}

}  // namespace

Index PredictInput::longest(Index first, Index sequences) const {
  const auto begin = lengths.begin() + first;
  return std::max<Index>(1, *std::max_element(begin, begin + sequences));
}

Batch PredictInput::batch(Index first, Index sequences, Index length) const {
  Batch batch;
  if (features.shape().rank() == 2) {
    Tensor<float>& to = batch.reals(batch_names::features);
    to.resize({length, sequences, features.shape()[1]});
    fill_steps(*this, features, first, sequences, to);
  } else {
    Tensor<std::int32_t>& to = batch.integers(batch_names::symbols);
    to.resize({length, sequences});
    fill_steps(*this, symbols, first, sequences, to);
  }
  const auto begin = lengths.begin() + first, end = begin + sequences;
  if (std::all_of(begin, end, [&](std::int32_t steps) { return steps == length; })) return batch;
  Tensor<std::int32_t>& to = batch.integers(batch_names::lengths);
  to.resize({sequences});
  std::copy(begin, end, to.begin());
  return batch;
}

PredictInput read_predict_input(const std::string& file, const ModelOptions& model,
                                const Tensor<std::int32_t>& order, const Task* task) {
  const std::optional<Index> numbers = numbers_of(model);
  PredictInput input = read_form(file, numbers, task);
  Index start = 0;
  for (const std::int32_t length : input.lengths) {
    const Index steps = input.steps_first.value_or(length);
    if (!order.empty() && steps != order.size()) {
      throw FileError(fmt::format("{}: a sequence has {} steps; this model reads {} in an order of its own",
                                  file, steps, order.size()));
    }
    input.starts.push_back(start);
    start += steps;
  }
  if (numbers) prepare_features(file, *numbers, task, input);
  if (!order.empty()) {
    reorder(order, input, input.features);
    reorder(order, input, input.symbols);
  }
  return input;
}

}  // namespace orthornn::program
