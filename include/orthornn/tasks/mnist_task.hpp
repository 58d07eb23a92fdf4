#pragma once

#include <list>
#include <string>
#include <vector>

#include "orthornn/tasks/task.hpp"

namespace orthornn {

class MnistTask;

/// Options of an MnistTask.
struct MnistOptions {
  using Made = MnistTask;
  static constexpr const char* name = "mnist";             ///< Name in files and on the command line.
  static constexpr const char* usual_data = "data/mnist";  ///< Folder into which tools/fetch-data puts them.
  /// Folder with the four IDX files as they are distributed, compressed or not.
  std::filesystem::path data = {};
  /// Whether the pixels are read in one fixed random order instead of row by row.
  bool permuted = false;
  /// Seed of that order, 0 to 2^32 - 1, as NumPy's RandomState takes it; not used where `input_order` is
  /// given.
  std::uint64_t permutation_seed = 92916;
  /// Order of the pixels, [T], for a permuted task of a model trained before; copied. Empty: the order of the
  /// seed.
  ConstTensorView<std::int32_t> input_order = {};
  /// Parts of the task of a model trained before (MnistTask::parts), whose images must be equal. Empty:
  /// images are not compared.
  std::vector<TaskPart> parts = {};
  /// Images B of a batch, >= 1.
  Index batch = 128;
  /// Seed that decides which training images are held out for validation, and the order of the others in each
  /// epoch.
  std::uint64_t seed = 1;
  /// Divisor of the number of training images that gives the number of those held out for validation; 12 is
  /// the only value. Files from before there were validation images lack it: their trainings are another
  /// task.
  Index validation_share = 12;

  /// Fields in `Task::config()`; the others are fields of TaskSource.
  static void fields(auto&& visit) {
    using Self = MnistOptions;
    visit("permuted", &Self::permuted, domain::any, "read the pixels in one fixed random order");
    visit("permutation_seed", &Self::permutation_seed, domain::any,
          "that order is NumPy's RandomState(SEED).permutation(784)");
    visit("validation_share", &Self::validation_share, Domain{.low = 12, .high = 12},
          "one training image in so many is held out");
  }
};

/// Pixel-by-pixel MNIST (Le, Jaitly and Hinton, "A simple way to initialize recurrent networks of rectified
/// linear units", 2015): a handwritten digit is a sequence of pixels, [784, B, 1] from 0 to 1, and the target
/// after the last pixel is the digit. The default permutation seed is that of expRNN's experiments (Lezcano
/// and Martinez-Rubio, ICML 2019); the permutation of a seed is
/// numpy.random.RandomState(seed).permutation(T).
///
/// Files are read when they are first needed. T is taken from them; until then, `length()` and a drawn
/// `input_order()` are those of 784 pixels, and views of the order become invalid where another size is read.
/// A twelfth of the training images, drawn from the seed, is the validation set: 5,000 of MNIST's 60,000. The
/// training data are the others in a new order each epoch, less the remainder that does not fill a batch. The
/// task keeps the images and one epoch's order, on a GPU too from the first batch that lies there, so one
/// thread at a time may use it.
class MnistTask final : public Task {
 public:
  /// Makes the task; reads no file. Throws ValueError for a batch below 1, an input order that is no
  /// permutation and parts that are not those of such a task.
  explicit MnistTask(const MnistOptions& options = {});

  std::string name() const override { return MnistOptions::name; }
  SequenceData data() const override { return {.features = 1, .classes = digits}; }
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  Index length() const override { return length_; }
  /// Number of training batches of an epoch. Reads the data, and throws as `load`.
  std::optional<Index> batches_per_epoch() const override;
  /// Loss of a guesser, ln 10, as the digits are about equally frequent.
  double baseline_loss() const override;
  /// Whether 98 of 100 digits are right; 95 when permuted, where the best orthogonal RNNs that are published
  /// reach 97.
  bool solved(const Evaluation& evaluation) const override;

  /// Reads the data unless they have been read. Throws FileError for a file that is missing, damaged or does
  /// not fit the others, and for images or labels other than those of the parts; ValueError when the training
  /// set does not fill one batch.
  void load() const override;
  void training_batch(std::uint64_t step, Batch& batch) const override;
  /// Number of batches of a held-out set. Reads the data, and throws as `load`.
  Index evaluation_batches(HeldOut set) const override;
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  std::vector<Metric> metrics() const override { return {Metric::accuracy()}; }
  void count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                     TensorView<double> sums) const override;

  std::string config() const override;
  ConstTensorView<std::int32_t> input_order() const override { return input_order_; }
  /// The part "data", a checksum of images and labels: with other images the training and its result would be
  /// those of another task. Reads the data unless the options had the parts, and throws as `load`.
  std::vector<TaskPart> parts() const override;
  bool may_lack_parts() const override { return true; }

 private:
  static constexpr Index digits = 10;

  /// Pixels [count, rows, columns] and labels [count].
  struct Images {
    Tensor<std::uint8_t> pixels;
    Tensor<std::uint8_t> labels;
    Index count() const { return labels.size(); }
  };
  /// What batches are made from, on one GPU.
  struct OnDevice {
    Device device;
    Images training;
    Images test;
    Tensor<std::int32_t> validation;
    Tensor<std::int32_t> input_order;
    Tensor<std::int32_t> epoch_order;
    std::optional<std::uint64_t> epoch;
  };

  Images read_images(const char* set) const;
  /// How many of so many training images are held out for validation.
  Index validation_count(Index images) const;
  Index held_out_count(HeldOut set) const;
  /// Numbers of the validation images in the files of training images.
  ConstTensorView<std::int32_t> validation_images() const;
  ConstTensorView<std::int32_t> training_images() const;
  ConstTensorView<std::int32_t> order_of_epoch(std::uint64_t epoch) const;
  OnDevice& on_device(Device device) const;
  /// Image i of the batch is number `order[first + i]`, or `first + i` when the order is empty.
  void fill(const Images& images, ConstTensorView<std::int32_t> order, Index first, Index count,
            Batch& batch) const;

  /// Without the order, which is a view of the caller's memory, and the parts: both are kept below.
  MnistOptions options_;
  bool order_was_given_;

  // What is read or drawn when it is first needed.
  /// Empty until the data are read, unless the options had it.
  mutable std::string checksum_;
  mutable Index length_ = 784;
  mutable Tensor<std::int32_t> input_order_;
  mutable Images training_;
  mutable Images test_;
  /// A permutation of the images in the training files: those for validation first.
  mutable Tensor<std::int32_t> split_;
  mutable std::optional<std::uint64_t> epoch_;
  mutable Tensor<std::int32_t> epoch_order_;
  /// A list keeps addresses stable: trainings on several GPUs take turns.
  mutable std::list<OnDevice> on_devices_;
};

}  // namespace orthornn
