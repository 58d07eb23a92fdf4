// What a DataTask writes into a batch.

#include <algorithm>
#include <cmath>

#include "tasks/sequences/loaded_sequences.hpp"

namespace orthornn {
namespace {

std::int32_t number(std::span<const std::int32_t> sequences, Index b) {
  return sequences[static_cast<std::size_t>(b)];
}

}  // namespace

void normalize_row(const float* from, const ColumnMaps& maps, float* to, Index columns) {
  const std::size_t inputs = maps.shift.size();
  for (std::size_t k = 0; k < inputs; ++k) {
    if (!std::isnan(from[k])) {
      to[k] = normalized(from[k], maps, k);
    } else if (static_cast<std::size_t>(columns) > inputs) {
      to[inputs + k] = 1;
    }
  }
}

void DataTask::Data::write_features(std::span<const std::int32_t> sequences, const ColumnMaps& maps,
                                    TensorView<float> to) const {
  std::fill(to.begin(), to.end(), 0.0F);
  for (Index b = 0; b < to.shape()[1]; ++b) {
    const std::int32_t i = number(sequences, b);
    for (Index t = 0; t < steps(i); ++t)
      normalize_row(features_at(start(i) + t), maps, &to(t, b, 0), to.shape()[2]);
  }
}

void DataTask::Data::write_symbols(std::span<const std::int32_t> sequences,
                                   TensorView<std::int32_t> to) const {
  for (Index b = 0; b < to.shape()[1]; ++b) {
    const std::int32_t i = number(sequences, b);
    for (Index t = 0; t < to.shape()[0]; ++t) to(t, b) = t < steps(i) ? view.symbols.data()[start(i) + t] : 0;
  }
}

void DataTask::Data::write_lengths(std::span<const std::int32_t> sequences,
                                   TensorView<std::int32_t> to) const {
  for (Index b = 0; b < to.size(); ++b) to(b) = static_cast<std::int32_t>(steps(number(sequences, b)));
}

void DataTask::Data::write_values(std::span<const std::int32_t> sequences, const ColumnMaps& maps,
                                  TensorView<float> to) const {
  const Index columns = value_columns(), count = std::ssize(sequences);
  std::fill(to.begin(), to.end(), 0.0F);
  for (Index b = 0; b < count; ++b) {
    const std::int32_t i = number(sequences, b);
    for (Index t = 0; t < target_count(i); ++t) {
      const float* from = values_at(target_row(i) + t);
      for (Index c = 0; c < columns; ++c)
        to.data()[(t * count + b) * columns + c] = normalized(from[c], maps, static_cast<std::size_t>(c));
    }
  }
}

void DataTask::Data::write_classes(std::span<const std::int32_t> sequences,
                                   TensorView<std::int32_t> to) const {
  const Index count = std::ssize(sequences);
  for (Index row = 0; row < to.size(); ++row) {
    const std::int32_t i = number(sequences, row % count);
    const Index t = row / count;
    to.data()[row] = t < target_count(i) ? class_at(target_row(i) + t) : -1;
  }
}

}  // namespace orthornn
