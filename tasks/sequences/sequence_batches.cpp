// What a DataTask writes into a batch.

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "orthornn/core/random.hpp"
#include "tasks/sequences/loaded_sequences.hpp"

namespace orthornn {
void normalize_row(const float* __restrict from, const ColumnMaps& maps, float* __restrict to,
                   Index columns) {
  const auto inputs = std::ssize(maps.shift);
  const float* const __restrict shift = maps.shift.data();
  const float* const __restrict divisor = maps.divisor.data();
  // Without a branch and without names that may overlap, so that the compiler makes vectors of it.
  for (Index k = 0; k < inputs; ++k) {
    const float x = normalized(from[k], shift[k], divisor[k]);
    to[k] = std::isnan(from[k]) ? 0.0F : x;
  }
  if (columns == inputs) return;
  for (Index k = 0; k < inputs; ++k) to[inputs + k] = std::isnan(from[k]) ? 1.0F : 0.0F;
}

Index DataTask::Data::batches_per_epoch() const {
  if (options.cut > 0) return training_streams().pieces;
  return buckets ? buckets->batches() : std::ssize(training) / options.batch;
}

Index DataTask::Data::evaluation_batches(HeldOut set) const {
  if (options.cut > 0) return streams(set).pieces;
  return (std::ssize(part(set)) + options.batch - 1) / options.batch;
}

void DataTask::Data::training_batch(std::uint64_t step, Assembly& assembly, Batch& batch) const {
  const auto batches = static_cast<std::uint64_t>(batches_per_epoch());
  const std::uint64_t epoch = step / batches;
  const auto number = static_cast<Index>(step % batches);
  if (options.cut > 0) return fill_piece(training.front(), training_streams(), number, assembly, batch);
  assembly.stretches.clear();
  if (buckets) {
    if (assembly.epoch != epoch) buckets->epoch(epoch, assembly.batches);
    for (const std::int32_t i : assembly.batches[number])
      assembly.stretches.push_back(whole(training[static_cast<std::size_t>(i)]));
  } else {
    if (assembly.epoch != epoch) {
      assembly.order.resize(training.size());
      random_permutation({assembly.order.data(), Shape{std::ssize(training)}},
                         RandomStream(options.seed, RandomPurpose::shuffle, epoch));
    }
    for (Index b = number * options.batch; b < (number + 1) * options.batch; ++b) {
      const std::int32_t i = assembly.order[static_cast<std::size_t>(b)];
      assembly.stretches.push_back(whole(training[static_cast<std::size_t>(i)]));
    }
  }
  assembly.epoch = epoch;
  batch.set_piece(std::nullopt);
  fill(assembly, batch);
}

void DataTask::Data::evaluation_batch(HeldOut set, Index number, Assembly& assembly, Batch& batch) const {
  const std::vector<std::int32_t>& of_set = part(set);
  if (options.cut > 0) return fill_piece(of_set.front(), streams(set), number, assembly, batch);
  assembly.stretches.clear();
  if (buckets) {
    const EpochBatches& batches = set == HeldOut::validation ? of_validation : of_test;
    for (const std::int32_t i : batches[number])
      assembly.stretches.push_back(whole(of_set[static_cast<std::size_t>(i)]));
  } else {
    const Index last = std::min<Index>(std::ssize(of_set), (number + 1) * options.batch);
    for (Index i = number * options.batch; i < last; ++i)
      assembly.stretches.push_back(whole(of_set[static_cast<std::size_t>(i)]));
  }
  batch.set_piece(std::nullopt);
  fill(assembly, batch);
}

/// The next steps of each of the streams into which a sequence is divided.
void DataTask::Data::fill_piece(Index sequence, const Streams& streams, Index number, Assembly& assembly,
                                Batch& batch) const {
  const Index first = number * options.cut;
  assembly.stretches.clear();
  for (Index b = 0; b < streams.count; ++b) {
    assembly.stretches.push_back(
        {sequence, b * streams.steps + first, std::min(options.cut, streams.steps - first)});
  }
  batch.set_piece(number);
  fill(assembly, batch);
}

void DataTask::Data::fill(Assembly& assembly, Batch& batch) const {
  const std::span<const Stretch> stretches = assembly.stretches;
  if (in_file()) expect(stretches);
  const Index count = std::ssize(stretches);
  Index most_steps = 0;
  for (const Stretch& stretch : stretches) most_steps = std::max(most_steps, stretch.steps);
  const auto integers = [&](std::string_view name, const Shape& shape, const auto& write) {
    Tensor<std::int32_t>& tensor = batch.integers(name);
    tensor.reserve(shape);
    assembly.staging.fill<std::int32_t>(tensor.view(), write);
  };
  const auto reals = [&](std::string_view name, const Shape& shape, const auto& write) {
    Tensor<float>& tensor = batch.reals(name);
    tensor.reserve(shape);
    assembly.staging.fill<float>(tensor.view(), write);
  };
  // 1. Inputs.
  if (has_features()) {
    const Index columns = options.missing == Missing::mask ? 2 * feature_columns() : feature_columns();
    // The largest of the tensors goes to a GPU without a copy in between. No batch needs more memory.
    if (Tensor<float>& features = batch.reals(batch_names::features);
        assembly.reader.is_cuda() && features.empty())
      features = HostStaging::page_locked<float>({longest, options.batch, columns}, assembly.reader);
    reals(batch_names::features, {most_steps, count, columns},
          [&](TensorView<float> to) { write_features(assembly, to); });
  } else {
    integers(batch_names::symbols, {most_steps, count},
             [&](TensorView<std::int32_t> to) { write_symbols(stretches, assembly.integers, to); });
  }
  if (has_lengths()) {
    integers(batch_names::lengths, {count}, [&](TensorView<std::int32_t> to) {
      std::ranges::transform(stretches, to.begin(),
                             [](const Stretch& stretch) { return static_cast<std::int32_t>(stretch.steps); });
    });
  }
  // 2. Targets.
  Shape targets = every_step() ? Shape{most_steps, count} : Shape{count};
  if (has_values()) {
    targets.append(value_columns());
    const auto weight_of = [](float x) { return std::isnan(x) ? 0.0F : 1.0F; };
    reals(batch_names::values, targets, [&](TensorView<float> to) {
      write_values(stretches, assembly.reals, to);
      find_weights<float>(stretches, to, weight_of, assembly.weights);
    });
  } else {
    const std::vector<float>& weights = statistics.class_weights;
    const auto weight_of = [&](std::int32_t number) {
      // A class that was not there when the data were looked at is refused by the loss.
      return number < 0                              ? 0.0F
             : std::cmp_less(number, weights.size()) ? weights[static_cast<std::size_t>(number)]
                                                     : 1.0F;
    };
    integers(batch_names::classes, targets, [&](TensorView<std::int32_t> to) {
      write_classes(stretches, assembly.integers, to);
      find_weights<std::int32_t>(stretches, to, weight_of, assembly.weights);
    });
  }
  if (has_weights()) {
    reals(batch_names::weights, targets,
          [&](TensorView<float> to) { std::ranges::copy(assembly.weights, to.begin()); });
  }
}

/// Lets the disk look for all numbers of a batch at once.
void DataTask::Data::expect(std::span<const Stretch> stretches) const {
  const Index columns = feature_columns(), of_values = value_columns();
  for (const Stretch& s : stretches) {
    const Index row = start(s.sequence) + s.first, count = s.steps + options.ahead;
    content.features.expect(row * columns, count * columns);
    content.symbols.expect(row, count);
    if (options.ahead > 0) continue;
    const Index target = target_row(s.sequence) + s.first;
    content.values.expect(target * of_values, target_count(s.steps) * of_values);
    content.classes.expect(target, target_count(s.steps));
  }
}

void DataTask::Data::write_features(Assembly& assembly, TensorView<float> to) const {
  const Index inputs = feature_columns(), columns = to.shape()[2];
  const std::span<const Stretch> stretches = assembly.stretches;
  std::array<std::span<const float>, Assembly::side_by_side> from;
  for (std::size_t first = 0; first < stretches.size(); first += from.size()) {
    const std::size_t count = std::min(from.size(), stretches.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const Stretch& s = stretches[first + i];
      from[i] = content.features.read((start(s.sequence) + s.first) * inputs, s.steps * inputs,
                                      assembly.features[i]);
    }
    for (Index t = 0; t < to.shape()[0]; ++t) {
      for (std::size_t i = 0; i < count; ++i) {
        float* const row = &to(t, static_cast<Index>(first + i), 0);
        const auto begin = static_cast<std::size_t>(t * inputs);
        if (begin < from[i].size())
          normalize_row(from[i].data() + begin, statistics.features, row, columns);
        else
          std::fill_n(row, columns, 0.0F);
      }
    }
  }
}

void DataTask::Data::write_symbols(std::span<const Stretch> stretches, Tensor<std::int32_t>& room,
                                   TensorView<std::int32_t> to) const {
  for (Index b = 0; b < to.shape()[1]; ++b) {
    const Stretch& s = stretches[static_cast<std::size_t>(b)];
    const std::span<const std::int32_t> from =
        content.symbols.read(start(s.sequence) + s.first, s.steps, room);
    for (Index t = 0; t < to.shape()[0]; ++t) to(t, b) = t < s.steps ? from[static_cast<std::size_t>(t)] : 0;
  }
}

void DataTask::Data::write_values(std::span<const Stretch> stretches, Tensor<float>& room,
                                  TensorView<float> to) const {
  const Index columns = value_columns(), count = std::ssize(stretches);
  const ColumnMaps& maps = statistics.values;
  std::fill(to.begin(), to.end(), 0.0F);
  for (Index b = 0; b < count; ++b) {
    const Stretch& s = stretches[static_cast<std::size_t>(b)];
    const Index targets = target_count(s.steps);
    const std::span<const float> from =
        value_numbers().read((target_row(s.sequence) + s.first) * columns, targets * columns, room);
    for (Index t = 0; t < targets; ++t) {
      for (Index c = 0; c < columns; ++c) {
        to.data()[(t * count + b) * columns + c] =
            normalized(from[static_cast<std::size_t>(t * columns + c)],
                       maps.shift[static_cast<std::size_t>(c)], maps.divisor[static_cast<std::size_t>(c)]);
      }
    }
  }
}

void DataTask::Data::write_classes(std::span<const Stretch> stretches, Tensor<std::int32_t>& room,
                                   TensorView<std::int32_t> to) const {
  const Index count = std::ssize(stretches), rows = to.size() / count;
  for (Index b = 0; b < count; ++b) {
    const Stretch& s = stretches[static_cast<std::size_t>(b)];
    const Index targets = target_count(s.steps);
    const std::span<const std::int32_t> from =
        class_numbers().read(target_row(s.sequence) + s.first, targets, room);
    for (Index t = 0; t < rows; ++t)
      to.data()[t * count + b] = t < targets ? from[static_cast<std::size_t>(t)] : -1;
  }
}

template <class T, class WeightOf>
void DataTask::Data::find_weights(std::span<const Stretch> stretches, TensorView<const T> targets,
                                  const WeightOf& weight_of, Tensor<float>& weights) const {
  if (!has_weights()) return;
  const Index columns = std::max<Index>(value_columns(), 1), count = std::ssize(stretches);
  weights.reserve(targets.shape());
  std::fill(weights.begin(), weights.end(), 0.0F);
  for (Index b = 0; b < count; ++b) {
    for (Index t = 0; t < target_count(stretches[static_cast<std::size_t>(b)].steps); ++t) {
      for (Index i = (t * count + b) * columns; i < (t * count + b + 1) * columns; ++i)
        weights.data()[i] = weight_of(targets.data()[i]);
    }
  }
}

}  // namespace orthornn
