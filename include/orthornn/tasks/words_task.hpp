#pragma once

#include <list>

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/finite_group.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

class WordsTask;

/// Elements of the group of which words are made.
enum class Alphabet {
  all,    ///< All elements.
  swaps,  ///< The swaps of two points, in a group `S<n>`.
  random  ///< Random elements that generate the group.
};
template <>
struct Names<Alphabet> {
  using enum Alphabet;
  static constexpr Choice<Alphabet> list[] = {{"all", all}, {"swaps", swaps}, {"random", random}};
};

/// Options of a WordsTask.
struct WordsOptions {
  using Made = WordsTask;
  static constexpr const char* name = "words";  ///< Name in files and on the command line.
  /// Name of the group, as FiniteGroup takes it.
  std::string group = "S3";
  /// Elements of which words are made.
  Alphabet alphabet = Alphabet::all;
  /// Number of random elements, for Alphabet::random.
  Index generators = 2;
  /// Steps T of a sequence, >= 1.
  Index length = 128;
  /// Number of sequences of the training data; 0 where each batch has new ones.
  Index training_samples = 0;
  /// Training steps of each stage: sequences have two symbols in the first stage, four in the second, and so
  /// on to T; 0 for T from the first step.
  Index curriculum = 0;
  /// Sequences B of a batch, >= 1.
  Index batch = 128;
  /// Seed of all sequences, and of the random elements.
  std::uint64_t seed = 1;

  /// Fields in `Task::config()`; the others are fields of TaskSource.
  static void fields(auto&& visit) {
    using Self = WordsOptions;
    visit("group", &Self::group, domain::any, "S<n>, A<n>, Z<n>, D<n>, or a product as Z2xS3");
    visit("alphabet", &Self::alphabet, domain::any,
          "all elements, swaps of two points (of S<n>), or random ones that generate the group");
    visit("generators", &Self::generators, domain::count, "elements of --alphabet random");
    visit("length", &Self::length, domain::count, "steps of a sequence");
    visit("training_samples", &Self::training_samples, Domain{.low = 0, .high = 2147483647},
          "sequences that there are to train on, 0 for new ones in each batch");
    visit("curriculum", &Self::curriculum, domain::not_negative,
          "training steps with sequences of two symbols, then of four, and so on to --length; 0 for none");
  }
};

/// The word problem of a finite group (Barrington, "Bounded-width polynomial-size branching programs
/// recognize exactly those languages in NC1", 1989; as a task of linear recurrences: Merrill, Petty and
/// Sabharwal, "The illusion of state in state-space models", ICML 2024). A sequence of elements x_t is read,
/// and the target of each step is y_t = x_t o ... o x_1, an element by its number.
///
/// A sequence depends on the seed, its set and its number alone: a shorter one is the beginning of a longer
/// one. With `training_samples`, an epoch has each sequence once, less the remainder that does not fill a
/// batch. Each of the two held-out sets has 1000 sequences, in batches of any size.
class WordsTask final : public Task {
 public:
  /// Number of sequences in each held-out set.
  static constexpr Index held_out_sequences = 1000;
  /// Largest size of the table of products, symbols times elements.
  static constexpr Index most_products = Index{1} << 22;

  /// Makes the task. Throws ValueError for an option outside its domain, a group that does not exist, an
  /// alphabet that the group does not have, more than `most_products`, fewer samples than a batch, and 2^31
  /// steps or more in a batch.
  explicit WordsTask(const WordsOptions& options = {});

  /// Group of the elements.
  const FiniteGroup& group() const { return group_; }
  /// Numbers of the elements that the symbols stand for.
  std::span<const Index> alphabet() const { return alphabet_; }

  std::string name() const override { return WordsOptions::name; }
  SequenceData data() const override {
    return {.symbols = std::ssize(alphabet_), .classes = group_.order(), .every_step = true};
  }
  std::optional<GroupWords> group_words() const override { return GroupWords{group_, alphabet_}; }
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  Index length() const override { return options_.length; }
  std::optional<Index> batches_per_epoch() const override;
  /// Mean entropy in nats of y_t over the steps, which is ln |G| if all elements are symbols. It is computed
  /// with at most 2^27 products, after which it counts as settled.
  double baseline_loss() const override;
  /// Whether 99 of 100 sequences are right at every step.
  bool solved(const Evaluation& evaluation) const override;

  void training_batch(std::uint64_t step, Batch& batch) const override;
  Index evaluation_batches(HeldOut) const override;
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  std::vector<Metric> metrics() const override { return {Metric::accuracy(), Metric::sequence_accuracy()}; }
  /// Counts the steps whose answer is right, and the sequences with right answers alone.
  void count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                     TensorView<double> sums) const override;

  std::unique_ptr<Task> with_length(Index length, Index batch) const override;
  std::string config() const override;

 private:
  /// The products of symbols and elements, on one GPU.
  struct OnDevice {
    Device device;
    Tensor<std::int32_t> products;
  };
  const Tensor<std::int32_t>& products_on(Device device) const;
  /// Steps of the sequences of a training step.
  Index length_at(std::uint64_t step) const;

  WordsOptions options_;
  FiniteGroup group_;
  std::vector<Index> alphabet_;
  /// Products x o y, [symbols, order].
  Tensor<std::int32_t> products_;
  /// A list keeps addresses stable: trainings on several GPUs take turns.
  mutable std::list<OnDevice> on_devices_;
};

}  // namespace orthornn
