#pragma once

#include <list>
#include <string>
#include <vector>

#include "orthornn/tasks/task.hpp"

namespace orthornn {

class MnistTask;

struct MnistOptions {
  using Made = MnistTask;
  static constexpr const char* name = "mnist";
  /// Folder with the four IDX files as they are distributed, compressed or not.
  std::filesystem::path data = {};
  /// Read the pixels in one fixed random order instead of row by row.
  bool permuted = false;
  /// Decides that order, unless `input_order` gives it: 0 to 2^32 - 1, as NumPy's RandomState has it.
  std::uint64_t permutation_seed = 92916;
  /// The order itself, [T]; copied. For a permuted task that goes with a model trained before.
  ConstTensorView<std::int32_t> input_order = {};
  /// MnistTask::parts() of a model's task: the images must be those. Empty: they are not compared.
  std::vector<TaskPart> parts = {};
  /// Images B of a batch, >= 1.
  Index batch = 128;
  /// Decides which training images are held out for validation, and the order of the others in each epoch.
  std::uint64_t seed = 1;
  /// One training image in so many is held out for validation. There is no other share yet; files from before
  /// there were validation images do not say it: a training of theirs is another task.
  Index validation_share = 12;

  /// Of `Task::config()`; the others are the TaskSource's.
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
/// linear units", 2015): a handwritten digit as a sequence of pixels, [784, B, 1] in 0 .. 1, to be named
/// after the last one. The permutation seed is the one of expRNN's experiments (Lezcano and Martinez-Rubio,
/// ICML 2019); the permutation of a seed is numpy.random.RandomState(seed).permutation(T), as theirs.
///
/// Files are read when they are first needed. T is taken from them; `length()` and a drawn `input_order()`
/// are those of 784 pixels until then, and views of the order end where another size is read. A twelfth of
/// the training images, drawn from the seed, is the validation set: 5,000 of MNIST's 60,000. Training data
/// are the others in a new order each epoch, less the remainder that does not fill a batch. Keeps what it
/// read and one epoch's order, so one task serves one thread at a time; also on a GPU, from the first batch
/// that lies there.
class MnistTask final : public SequenceTask {
 public:
  /// Throws ValueError for a batch below 1, an input order that is no permutation or parts that are none;
  /// reads no file.
  explicit MnistTask(const MnistOptions& options = {});

  std::string name() const override { return MnistOptions::name; }
  SequenceData data() const override { return {.features = 1, .classes = digits}; }
  TaskDefaults defaults() const override;
  Index batch_size() const override { return batch_; }
  std::uint64_t seed() const override { return seed_; }
  Index length() const override { return length_; }
  /// Needs the data.
  std::optional<Index> batches_per_epoch() const override;
  /// ln 10: the digits are about equally frequent.
  double baseline_loss() const override;
  /// 98 of 100 digits named; 95 when permuted, where the best orthogonal RNNs that are published reach 97.
  bool solved(const Evaluation& evaluation) const override;

  /// Throws FileError for a file that is missing, damaged or does not fit the others, and for images or
  /// labels that are not those of the parts; ValueError when the training set does not fill one batch.
  void load() const override;
  void training_batch(std::uint64_t step, Batch& batch) const override;
  /// Needs the data.
  Index evaluation_batches(HeldOut set) const override;
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  bool has_accuracy() const override { return true; }
  void count_right(ConstTensorView<float> outputs, const Batch& batch,
                   TensorView<double> score) const override;

  std::string config() const override;
  ConstTensorView<std::int32_t> input_order() const override { return input_order_; }
  /// "data", a checksum of images and labels: with other test images the result would be of another task, and
  /// other training images would be another training. Needs the data unless the options had it.
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
  static std::string checksum_of(const Images& training, const Images& test);
  /// How many of so many training images are held out for validation.
  Index validation_count(Index images) const;
  Index held_out_count(HeldOut set) const;
  /// Their numbers in the files of training images.
  ConstTensorView<std::int32_t> validation_images() const;
  ConstTensorView<std::int32_t> training_images() const;
  ConstTensorView<std::int32_t> order_of_epoch(std::uint64_t epoch) const;
  OnDevice& on_device(Device device) const;
  /// Image i of the batch is number `order[first + i]`, or `first + i` when the order is empty.
  void fill(const Images& images, ConstTensorView<std::int32_t> order, Index first, Index count,
            Batch& batch) const;

  std::filesystem::path data_;
  bool permuted_;
  std::uint64_t permutation_seed_;
  bool order_was_given_;
  Index batch_;
  std::uint64_t seed_;
  Index validation_share_;

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
  /// Of stable addresses: trainings on several GPUs take turns.
  mutable std::list<OnDevice> on_devices_;
};

}  // namespace orthornn
