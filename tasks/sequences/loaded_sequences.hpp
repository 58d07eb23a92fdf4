#pragma once
// The sequences of a DataTask once they are there.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orthornn/tasks/data_task.hpp"
#include "tasks/batch_size.hpp"

namespace orthornn {

/// A number of a column as batches have it.
inline float normalized(float x, const ColumnMaps& maps, std::size_t column) {
  return (x - maps.shift[column]) / maps.divisor[column];
}
/// Normalizes a row of features into `to`, a row of zeros with `columns` entries. A missing number stays 0.
/// If there are more columns than features, as many after them mark the missing ones by 1.
void normalize_row(const float* from, const ColumnMaps& maps, float* to, Index columns);

/// Throws ValueError.
[[noreturn]] void refuse_sequences(const std::string& why);

/// Sizes of the sequences, whatever their form.
struct SequenceSizes {
  /// First step of each sequence, and the number of all steps, [N + 1].
  std::vector<Index> starts = {0};
  /// Shape of the steps: [N, T], or [S] with lengths.
  Shape steps;

  /// Throws ShapeError and ValueError for inputs and lengths that do not fit one another.
  explicit SequenceSizes(const SequenceView& view);

  Index count() const { return std::ssize(starts) - 1; }
  Index length(Index i) const {
    return starts[static_cast<std::size_t>(i) + 1] - starts[static_cast<std::size_t>(i)];
  }
};

/// Part of each sequence, [N], as SequenceView::parts has them: groups are drawn from the seed, so that the
/// two held-out parts have their shares of them. Throws ValueError where none is left to train on.
std::vector<std::int32_t> drawn_parts(Index count, ConstTensorView<std::int32_t> groups,
                                      const DataTaskOptions& options);

/// Steps of a sequence that a batch has.
struct Stretch {
  Index sequence = 0;
  Index first = 0;
  Index steps = 0;
};

/// How the sequence of a part is read in pieces.
struct Streams {
  Index count = 0;   ///< Stretches that are read side by side.
  Index steps = 0;   ///< Steps of each.
  Index pieces = 0;  ///< Batches until all are read.

  /// Streams of a sequence of `all` steps, in pieces of `cut`.
  Streams(Index all, Index streams, Index cut)
      : count(streams), steps(all / streams), pieces((steps + cut - 1) / cut) {}
};

/// The sequences, their split and their order.
struct DataTask::Data {
  Data(const SequenceView& given, const DataTaskOptions& given_options)
      : view(given), options(given_options), sizes(given) {
    check_targets();
    check_numbers();
    split();
    for (Index i = 0; i < sizes.count(); ++i) {
      longest = std::max(longest, steps(i));
      shortest = std::min(shortest, steps(i));
    }
    if (options.cut > 0) {
      check_streams();
      longest = shortest = options.cut;
    }
    check_batch_size("sequences", longest, options.batch);
    if (options.cut == 0) prepare_batches();
  }

  /// Steps of a sequence that are read: with `ahead`, those that have a target.
  Index steps(Index i) const { return sizes.length(i) - options.ahead; }
  Index start(Index i) const { return sizes.starts[static_cast<std::size_t>(i)]; }
  bool has_features() const { return !view.features.empty(); }
  bool every_step() const { return view.every_step || options.ahead > 0; }
  bool has_values() const { return options.ahead > 0 ? has_features() : !view.values.empty(); }
  Index feature_columns() const { return has_features() ? view.features.shape()[-1] : 0; }
  Index value_columns() const {
    return !has_values() ? 0 : options.ahead > 0 ? feature_columns() : view.values.shape()[-1];
  }
  const float* features_at(Index row) const { return view.features.data() + row * feature_columns(); }
  /// First row of the targets of a sequence, in `values_at` and `class_at`.
  Index target_row(Index i) const { return every_step() ? start(i) + options.ahead : i; }
  Index target_count(Index i) const { return every_step() ? steps(i) : 1; }
  Index target_count(const Stretch& stretch) const { return every_step() ? stretch.steps : 1; }
  const float* values_at(Index row) const {
    return (options.ahead > 0 ? view.features.data() : view.values.data()) + row * value_columns();
  }
  std::int32_t class_at(Index row) const {
    return (options.ahead > 0 ? view.symbols.data() : view.classes.data())[row];
  }

  void check_targets() const;
  void check_numbers() const;
  void split();
  void prepare_batches();
  DataStatistics find_statistics() const;
  /// Throws where held-out data have symbols or classes that these statistics lack.
  void check(const DataStatistics& statistics) const;
  void find_baseline(const DataStatistics& statistics);
  bool has_lengths() const { return shortest != longest; }
  // A batch of `stretches`, normalized, zeros beyond the steps of a stretch (sequence_batches.cpp).
  void write_features(const ColumnMaps& maps, TensorView<float> to) const;
  void write_symbols(TensorView<std::int32_t> to) const;
  void write_lengths(TensorView<std::int32_t> to) const;
  void write_values(const ColumnMaps& maps, TensorView<float> to) const;
  void write_classes(TensorView<std::int32_t> to) const;
  const std::vector<std::int32_t>& part(HeldOut set) const {
    return set == HeldOut::validation ? validation : test;
  }
  void check_streams() const;
  /// Streams of the sequence of the training data, or of a held-out part.
  Streams training_streams() const { return {steps(training.front()), options.batch, options.cut}; }
  Streams streams(HeldOut set) const;

  SequenceView view;
  DataTaskOptions options;
  SequenceSizes sizes;
  /// std::vector<std::int32_t> of the sequences.
  std::vector<std::int32_t> training, validation, test;
  Index longest = 1, shortest = std::numeric_limits<Index>::max();
  /// Where lengths differ: batches of similar ones.
  std::optional<LengthBuckets> buckets;
  EpochBatches of_epoch, of_validation, of_test;
  std::optional<std::uint64_t> epoch;
  /// Order of the training sequences in this epoch, or those of a batch.
  std::vector<std::int32_t> order, chosen;
  /// What the next batch has.
  std::vector<Stretch> stretches;
  double baseline = 0;
  /// Standard deviation of each target column of the training data.
  std::vector<double> deviations;
};

}  // namespace orthornn
