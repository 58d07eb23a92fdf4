// What a DataTask writes into a batch.

#include <algorithm>
#include <cmath>

#include "tasks/sequences/loaded_sequences.hpp"

namespace orthornn {

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

void DataTask::Data::write_features(const ColumnMaps& maps, TensorView<float> to) const {
  std::fill(to.begin(), to.end(), 0.0F);
  for (Index b = 0; b < to.shape()[1]; ++b) {
    const Stretch& s = stretches[static_cast<std::size_t>(b)];
    const Index row = start(s.sequence) + s.first;
    for (Index t = 0; t < s.steps; ++t)
      normalize_row(features_at(row + t), maps, &to(t, b, 0), to.shape()[2]);
  }
}

void DataTask::Data::write_symbols(TensorView<std::int32_t> to) const {
  for (Index b = 0; b < to.shape()[1]; ++b) {
    const Stretch& s = stretches[static_cast<std::size_t>(b)];
    const std::int32_t* symbols = view.symbols.data() + start(s.sequence) + s.first;
    for (Index t = 0; t < to.shape()[0]; ++t) to(t, b) = t < s.steps ? symbols[t] : 0;
  }
}

void DataTask::Data::write_lengths(TensorView<std::int32_t> to) const {
  for (Index b = 0; b < to.size(); ++b)
    to(b) = static_cast<std::int32_t>(stretches[static_cast<std::size_t>(b)].steps);
}

void DataTask::Data::write_values(const ColumnMaps& maps, TensorView<float> to) const {
  const Index columns = value_columns(), count = std::ssize(stretches);
  std::fill(to.begin(), to.end(), 0.0F);
  for (Index b = 0; b < count; ++b) {
    const Stretch& s = stretches[static_cast<std::size_t>(b)];
    for (Index t = 0; t < target_count(s); ++t) {
      const float* from = values_at(target_row(s.sequence) + s.first + t);
      for (Index c = 0; c < columns; ++c)
        to.data()[(t * count + b) * columns + c] = normalized(from[c], maps, static_cast<std::size_t>(c));
    }
  }
}

void DataTask::Data::write_classes(TensorView<std::int32_t> to) const {
  const Index count = std::ssize(stretches);
  for (Index row = 0; row < to.size(); ++row) {
    const Stretch& s = stretches[static_cast<std::size_t>(row % count)];
    const Index t = row / count;
    to.data()[row] = t < target_count(s) ? class_at(target_row(s.sequence) + s.first + t) : -1;
  }
}

}  // namespace orthornn
