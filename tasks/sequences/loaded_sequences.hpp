#pragma once
// The sequences of a DataTask once they are there.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/core/host_staging.hpp"
#include "orthornn/tasks/data_task.hpp"
#include "orthornn/text/length_buckets.hpp"
#include "tasks/sequences/number_survey.hpp"
#include "tasks/sequences/prefetched_batches.hpp"
#include "tasks/sequences/stored_numbers.hpp"

namespace orthornn {

/// A number of a column as batches have it.
inline float normalized(float x, float shift, float divisor) { return (x - shift) / divisor; }
/// Normalizes a row of features into `to`, which has `columns` entries. A missing number becomes 0.
/// If there are more columns than features, as many after them mark the missing ones by 1.
void normalize_row(const float* from, const ColumnMaps& maps, float* to, Index columns);

/// More symbols or classes than any model has. Whole numbers that name nothing, such as dates, are larger.
inline constexpr std::int32_t most_names = 1 << 24;

/// Throws ValueError.
[[noreturn]] void refuse_sequences(const std::string& why);

/// Something in one sequence is refused.
struct SequenceError : ValueError {
  SequenceError(Index number, const std::string& reason);

  Index sequence;
  std::string why;
};

/// The sequences of a SequenceView, whose numbers may lie in a file.
struct DataTask::Content {
  Content(const SequenceView& view)
      : features(view.features),
        symbols(view.symbols),
        lengths(view.lengths),
        every_step(view.every_step),
        classes(view.classes),
        values(view.values),
        class_weights(view.class_weights.begin(), view.class_weights.end()),
        groups(view.groups),
        validation(view.validation),
        test(view.test),
        symbol_count(view.symbol_count),
        symbol_bytes(view.symbol_bytes) {}

  StoredNumbers<float> features;
  StoredNumbers<std::int32_t> symbols;
  ConstTensorView<std::int32_t> lengths;
  bool every_step;
  StoredNumbers<std::int32_t> classes;
  StoredNumbers<float> values;
  std::vector<float> class_weights;
  ConstTensorView<std::int32_t> groups;
  Index validation, test;
  Index symbol_count;
  ConstTensorView<std::int32_t> symbol_bytes;
};

/// Sizes of the sequences, whatever their form.
struct SequenceSizes {
  /// First step of each sequence, and the number of all steps, [N + 1].
  std::vector<Index> starts = {0};
  /// Shape of the steps: [N, T], or [S] with lengths.
  Shape steps;

  /// Throws ShapeError and ValueError for inputs and lengths that do not fit one another. `inputs` is the
  /// shape of the features or symbols.
  SequenceSizes(const Shape& inputs, bool has_features, ConstTensorView<std::int32_t> lengths);

  Index count() const { return std::ssize(starts) - 1; }
  Index length(Index i) const {
    return starts[static_cast<std::size_t>(i) + 1] - starts[static_cast<std::size_t>(i)];
  }
};

/// Part of each sequence, [N]: 0 for training, 1 for validation, 2 for test data. Groups are drawn from the
/// seed for the held-out parts that are asked for, so that these have their shares of them. Throws ValueError
/// where none is left to train on.
std::vector<std::int32_t> drawn_parts(Index count, ConstTensorView<std::int32_t> groups,
                                      const DataTaskOptions& options, bool draws_validation, bool draws_test);

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

/// What a thread keeps while it assembles batches, so that the next batch takes no memory.
struct Assembly {
  /// Sequences whose features are written side by side. Rows of one sequence are far from each other in a
  /// batch, and a cache would fetch and drop the lines of each for a few numbers.
  static constexpr std::size_t side_by_side = 8;

  HostStaging staging;
  /// Device to which the batches are sent.
  Device reader = Device::cpu();
  /// Numbers of a file: features of some sequences, and other numbers of one.
  std::array<Tensor<float>, side_by_side> features;
  Tensor<float> reals;
  Tensor<std::int32_t> integers;
  /// Of the targets of a batch, where they have weights.
  Tensor<float> weights;
  /// The epoch of the last training batch: the order of its sequences, or where lengths differ its batches.
  std::optional<std::uint64_t> epoch;
  std::vector<std::int32_t> order;
  EpochBatches batches;
  /// What the next batch has.
  std::vector<Stretch> stretches;
};

/// The sequences, their split and their order. Several threads may assemble batches of them.
struct DataTask::Data {
  /// What one pass over all numbers finds.
  struct Survey {
    FoundReals features, values;
    FoundIntegers symbols, classes;
  };

  /// Looks at sizes and groups, and at no number.
  Data(Content given, const DataTaskOptions& given_options);

  /// Steps of a sequence that are read: with `ahead`, those that have a target.
  Index steps(Index i) const { return sizes.length(i) - options.ahead; }
  Index start(Index i) const { return sizes.starts[static_cast<std::size_t>(i)]; }
  bool has_features() const { return !content.features.empty(); }
  bool every_step() const { return content.every_step || options.ahead > 0; }
  bool has_bytes() const { return options.ahead > 0 && !content.symbol_bytes.empty(); }
  bool has_lengths() const { return shortest != longest; }
  bool has_values() const { return options.ahead > 0 ? has_features() : !content.values.empty(); }
  bool has_weights() const { return lacks_values || !statistics.class_weights.empty(); }
  /// Whether targets are symbols whose loss has weights, while perplexity has none.
  bool has_weighted_symbols() const { return options.ahead > 0 && !statistics.class_weights.empty(); }
  bool in_file() const {
    return content.features.in_file() || content.symbols.in_file() || content.values.in_file() ||
           content.classes.in_file();
  }
  Index feature_columns() const { return has_features() ? content.features.shape()[-1] : 0; }
  Index value_columns() const { return has_values() ? value_numbers().shape()[-1] : 0; }
  /// Numbers and classes that are targets.
  const StoredNumbers<float>& value_numbers() const {
    return options.ahead > 0 ? content.features : content.values;
  }
  const StoredNumbers<std::int32_t>& class_numbers() const {
    return options.ahead > 0 ? content.symbols : content.classes;
  }
  /// First row of the targets of a sequence, in `value_numbers` and `class_numbers`.
  Index target_row(Index i) const { return every_step() ? start(i) + options.ahead : i; }
  Index target_count(Index steps) const { return every_step() ? steps : 1; }
  const std::vector<std::int32_t>& part(HeldOut set) const {
    return set == HeldOut::validation ? validation : test;
  }

  /// Looks at all numbers. Throws for numbers that are missing or infinite, and for negative symbols.
  Survey survey(bool with_checksum) const;
  /// Sizes and CRC-32 of all numbers.
  std::string checksum(const Survey& found) const;
  /// The statistics of the training data. Throws where float keeps too little of a column's numbers.
  DataStatistics find_statistics(const Survey& found) const;
  /// Takes statistics. Throws where they are not of such data, and where the data have symbols or classes
  /// that they lack.
  void use(const DataStatistics& given_statistics, const Survey& found,
           std::span<const std::string> class_names);

  /// Batches of the training and of held-out data (sequence_batches.cpp).
  void training_batch(std::uint64_t step, Assembly& assembly, Batch& batch) const;
  void evaluation_batch(HeldOut set, Index number, Assembly& assembly, Batch& batch) const;
  Index batches_per_epoch() const;
  Index evaluation_batches(HeldOut set) const;

  Content content;
  DataTaskOptions options;
  SequenceSizes sizes;
  /// Numbers of the sequences.
  std::vector<std::int32_t> training, validation, test;
  Index longest = 1, shortest = std::numeric_limits<Index>::max();
  /// Where lengths differ: batches of similar ones.
  std::optional<LengthBuckets> buckets;
  EpochBatches of_validation, of_test;
  DataStatistics statistics;
  /// Whether a number is missing that is a target.
  bool lacks_values = false;
  double baseline = 0;
  /// Standard deviation of each target column of the training data.
  std::vector<double> deviations;
  /// What the thread that calls keeps, and those that go ahead.
  Assembly here;
  std::array<Assembly, PrefetchedBatches::thread_count> ahead;
  /// Training batches that are assembled while the steps before them are taken. There are none for data in
  /// memory on the CPU, whose threads have work already.
  std::optional<PrefetchedBatches> prefetched;

 private:
  void check_targets() const;
  void split();
  void prepare_batches();
  void check_found(const Survey& found) const;
  void check_classes(const Survey& found) const;
  /// Whether `is_meant` tells of a target of these steps. Reads up to the first such target.
  template <class T, class IsMeant>
  bool any_target(const StoredNumbers<T>& numbers, const Stretch& stretch, const IsMeant& is_meant) const;
  /// Throws where what a step of the training or an evaluation reads has no target that counts.
  template <class T, class Counts>
  void check_counting(const StoredNumbers<T>& numbers, const Counts& counts) const;
  template <class T, class Counts>
  void check_counting_pieces(const StoredNumbers<T>& numbers, const Counts& counts) const;
  std::vector<float> find_class_weights(const Survey& found) const;
  /// How often each class is a target of the training.
  const std::vector<Index>& class_counts(const Survey& found) const {
    return (options.ahead > 0 ? found.symbols : found.classes).counts;
  }
  const FoundReals& found_values(const Survey& found) const {
    return options.ahead > 0 ? found.features : found.values;
  }
  /// Throws where held-out data have symbols or classes that no training sequence has.
  void check_seen(const Survey& found, std::span<const std::string> class_names) const;
  /// The sequence that has a row of the steps.
  Index sequence_of(Index row) const;
  void find_baseline(const Survey& found);
  void check_streams() const;
  /// Streams of the sequence of the training data, or of a held-out part.
  Streams training_streams() const { return {steps(training.front()), options.batch, options.cut}; }
  Streams streams(HeldOut set) const;
  Stretch whole(Index sequence) const { return {sequence, 0, steps(sequence)}; }
  void fill_piece(Index sequence, const Streams& streams, Index number, Assembly& assembly,
                  Batch& batch) const;
  /// Fills a batch with the stretches of the assembly.
  void fill(Assembly& assembly, Batch& batch) const;
  void expect(std::span<const Stretch> stretches) const;
  // A batch of these stretches, normalized, zeros beyond the steps of a stretch.
  void write_features(Assembly& assembly, TensorView<float> to) const;
  void write_symbols(std::span<const Stretch> stretches, Tensor<std::int32_t>& room,
                     TensorView<std::int32_t> to) const;
  void write_values(std::span<const Stretch> stretches, Tensor<float>& room, TensorView<float> to) const;
  void write_classes(std::span<const Stretch> stretches, Tensor<std::int32_t>& room,
                     TensorView<std::int32_t> to) const;
  /// Finds the weights of the targets that a batch has: weight_of(target), and 0 for padding.
  template <class T, class WeightOf>
  void find_weights(std::span<const Stretch> stretches, TensorView<const T> targets,
                    const WeightOf& weight_of, Tensor<float>& weights) const;
};

template <class T, class IsMeant>
bool DataTask::Data::any_target(const StoredNumbers<T>& numbers, const Stretch& stretch,
                                const IsMeant& is_meant) const {
  constexpr Index piece = Index{1} << 18;
  const Index columns = std::max<Index>(value_columns(), 1);
  const Index first = (target_row(stretch.sequence) + stretch.first) * columns,
              count = target_count(stretch.steps) * columns;
  Tensor<T> room;
  for (Index done = 0; done < count; done += piece) {
    if (std::ranges::any_of(numbers.read(first + done, std::min(piece, count - done), room), is_meant))
      return true;
  }
  return false;
}

}  // namespace orthornn
