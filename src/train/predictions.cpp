#include "train/predictions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "core/host_copy.hpp"
#include "orthornn/core/error.hpp"
#include "train/frames_ahead.hpp"

namespace orthornn {
namespace {

/// Steps of all sequences of a batch together. More make nothing faster, and what the layers keep of them
/// would take gigabytes.
constexpr Index most_steps_of_batch = Index{1} << 16;

/// The part of an input that begins with a sequence.
BatchPart part_from(const StepLayout& layout, const PredictInput& input, Index first) {
  BatchPart part{.first = first, .steps = layout.steps_first.value_or(1)};
  while (first + part.sequences < input.count()) {
    const Index steps = std::max(part.steps, input.longest(first + part.sequences, 1));
    if (part.sequences > 0 && steps * (part.sequences + 1) > most_steps_of_batch) break;
    part.steps = steps;
    ++part.sequences;
  }
  return part;
}

/// A tensor without numbers yet: one state of each layer for each of `rows`.
std::vector<NamedStates> states_of(const SequenceModel<float>& model, Index rows) {
  std::vector<NamedStates> states;
  for (Index cell = 0; cell < model.cell_count(); ++cell) {
    const Layer<float>& layer = model.cell(cell);
    for (Index i = 0; i < layer.state_count(); ++i)
      states.push_back({layer.state_name(i), cell, Tensor<float>(layer.state_shape(i, rows))});
  }
  return states;
}

/// Sets the features beyond the ends of sequences to 0. Symbols there are never read.
void clear_padding(PredictInput& input) {
  Tensor<float>& features = input.features;
  if (features.empty() || !input.steps_first) return;
  const Index length = *input.steps_first, row = features.size() / features.shape()[0];
  float* sequence = features.data();
  for (const std::int32_t steps : input.lengths) {
    std::fill(sequence + steps * row, sequence + length * row, 0.0F);
    sequence += length * row;
  }
}

/// Brings features into the form that the model reads.
void prepare_features(Index numbers, const Task* task, PredictInput& input) {
  Tensor<float>& features = input.features;
  if (task != nullptr) features = task->own_features(features);
  const Index found = features.shape()[1];
  if (found != numbers && input.steps_first) {
    throw ValueError(fmt::format("{} has shape {}; this model reads floats [T, B, {}]", input.array,
                                 to_string({*input.steps_first, input.count(), found}), numbers));
  }
  if (found != numbers) {
    throw ValueError(fmt::format("its steps have {} numbers; this model reads {}", found, numbers));
  }
  for (const float x : features) {
    if (!std::isfinite(x))
      throw ValueError(
          fmt::format("{} holds a value that is not finite", input.steps_first ? input.array : "it"));
  }
}

/// Puts the steps of each sequence in the model's order.
template <class T>
void reorder(ConstTensorView<std::int32_t> order, const PredictInput& input, Tensor<T>& rows) {
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

/// Computes one batch after the other.
class Predictor {
 public:
  Predictor(SequenceModel<float>& model, const std::vector<PredictInput>& inputs, const PredictedToo& too)
      : model_(model), too_(too), found_{.layout = StepLayout(inputs), .cells = model.cell_count()} {
    const ReadoutOptions& readout = model.options().readout;
    found_.every_step = answers_every_step(readout);
    const Index outputs = output_size_of(readout);
    const Index rows = found_.layout.rows(), count = found_.layout.count();
    found_.outputs.resize({found_.every_step ? rows : count, outputs});
    found_.last = states_of(model, count);
    if (too.states) found_.states = states_of(model, rows);
    if (too.ahead > 0) found_.ahead.resize({count, too.ahead, outputs});
  }

  /// `offset` is the number of the input's first sequence among all.
  void add(const PredictInput& input, const BatchPart& part, Index offset) {
    const Batch batch = input.batch(part.first, part.sequences, part.steps).copy(model_.device());
    const TensorView<const float> outputs = model_.forward(batch);
    model_.synchronize();  // a GPU has looked at the input only then
    const Index first = offset + part.first;
    take_outputs(outputs, part, first);
    ModelState<float> state;
    model_.final_state(state);
    for (std::size_t k = 0; k < state.size(); ++k)
      copy<float>(state[k], found_.last[k].values.view().slice(first, part.sequences));
    if (too_.ahead > 0) take_ahead(outputs_after(model_, batch, outputs, too_.ahead), first);
    if (!found_.states.empty()) take_states(batch, part, first);  // last: it goes through the model again
  }

  Predictions&& found() { return std::move(found_); }
  const StepLayout& layout() const { return found_.layout; }

 private:
  Index steps_of(Index sequence) const { return layout().lengths[static_cast<std::size_t>(sequence)]; }

  void take_outputs(TensorView<const float> outputs, const BatchPart& part, Index first) {
    if (!found_.every_step) return copy<float>(outputs, found_.outputs.view().slice(first, part.sequences));
    const Tensor<float> host = host_copy(outputs);
    for (Index b = 0; b < part.sequences; ++b) {
      // Arrays with their steps first have room for outputs beyond the end of a sequence.
      const Index steps = layout().steps_first ? part.steps : steps_of(first + b);
      for (Index t = 0; t < steps; ++t)
        copy<float>(host.view()[t].slice(b, 1), found_.outputs.view().slice(layout().row(first + b, t), 1));
    }
  }

  void take_ahead(const Tensor<float>& ahead, Index first) {
    const Tensor<float> host = host_copy(ahead.view());
    for (Index m = 0; m < host.shape()[0]; ++m) {
      for (Index b = 0; b < host.shape()[1]; ++b)
        copy<float>(host.view()[m][b], found_.ahead.view()[first + b][m]);
    }
  }

  /// Goes through the steps again: a forward over whole sequences does not keep the states of every layer.
  void take_states(const Batch& batch, const BatchPart& part, Index first) {
    SequenceModel<float>::Generator generator(model_, part.sequences);
    const TensorView<const float> features = batch.reals(batch_names::features);
    const TensorView<const std::int32_t> symbols = batch.integers(batch_names::symbols);
    for (Index t = 0; t < part.steps; ++t) {
      features.empty() ? generator.step(symbols[t]) : generator.step(features[t]);
      for (std::size_t k = 0; k < found_.states.size(); ++k) {
        const Tensor<float> state = generator.state()[k].copy(Device::cpu());
        for (Index b = 0; b < part.sequences; ++b) {
          if (t < steps_of(first + b))
            copy<float>(state.view().slice(b, 1),
                        found_.states[k].values.view().slice(layout().row(first + b, t), 1));
        }
      }
    }
  }

  SequenceModel<float>& model_;
  PredictedToo too_;
  Predictions found_;
};

}  // namespace

std::optional<Index> numbers_of(const ModelOptions& model) {
  const auto* dense = std::get_if<DenseInput>(&model.input);
  return dense == nullptr ? std::nullopt : std::optional(dense->size);
}

template <class T>
Tensor<T> one_after_the_other(TensorView<const T> x) {
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
template Tensor<float> one_after_the_other<float>(TensorView<const float>);
template Tensor<std::int32_t> one_after_the_other<std::int32_t>(TensorView<const std::int32_t>);

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

void bring_to_model(PredictInput& input, const ModelOptions& model, ConstTensorView<std::int32_t> order,
                    const Task* task) {
  Index start = 0;
  for (const std::int32_t length : input.lengths) {
    const Index steps = input.steps_first.value_or(length);
    // Padding would be read within such an order.
    if (!order.empty() && (steps != order.size() || length != steps)) {
      throw ValueError(fmt::format("a sequence has {} steps; this model reads {} in an order of its own",
                                   steps != order.size() ? steps : length, order.size()));
    }
    input.starts.push_back(start);
    start += steps;
  }
  clear_padding(input);
  if (const auto numbers = numbers_of(model)) prepare_features(*numbers, task, input);
  if (!order.empty()) {
    reorder(order, input, input.features);
    reorder(order, input, input.symbols);
  }
}

StepLayout::StepLayout(const std::vector<PredictInput>& inputs) {
  for (const PredictInput& input : inputs) {
    for (const std::int32_t length : input.lengths) {
      lengths.push_back(length);
      starts.push_back(all);
      all += length;
    }
  }
  if (inputs.size() == 1) steps_first = inputs[0].steps_first;
}

bool StepLayout::is_ragged() const {
  return std::ranges::any_of(lengths, [&](std::int32_t length) { return length != lengths[0]; });
}

Shape StepLayout::shape() const {
  if (steps_first) return {*steps_first, count()};
  if (is_ragged()) return {all};
  return {count(), lengths[0]};
}

BatchPart first_part(const StepLayout& layout, const PredictInput& input) {
  return part_from(layout, input, 0);
}

Predictions predictions_of(SequenceModel<float>& model, const std::vector<PredictInput>& inputs,
                           const Task* task, const PredictedToo& too,
                           const std::function<void(Index sequences)>& after_batch) {
  Predictor predictor(model, inputs, too);
  Index offset = 0;
  for (const PredictInput& input : inputs) {
    for (Index first = 0; first < input.count();) {
      const BatchPart part = part_from(predictor.layout(), input, first);
      try {
        predictor.add(input, part, offset);
      } catch (const Error& error) {
        if (input.file.empty()) throw;
        throw FileError(fmt::format("{}: {}", input.file, error.what()));
      }
      if (after_batch) after_batch(part.sequences);
      first += part.sequences;
    }
    offset += input.count();
  }
  Predictions found = predictor.found();
  if (task != nullptr) task->restore_outputs(found.outputs.view());
  return found;
}

}  // namespace orthornn
