#include "orthornn/tasks/mnist_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/fields_json.hpp"
#include "core/for_each.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "pointwise/batches.hpp"
#include "tasks/batches.hpp"
#include "tasks/count_right.hpp"
#include "tasks/data_part.hpp"
#include "tasks/mnist/mnist_images.hpp"
#include "tasks/mnist/numpy_permutation.hpp"

namespace orthornn {

MnistTask::MnistTask(const MnistOptions& options)
    : options_(options), order_was_given_(options.permuted && !options.input_order.empty()) {
  options_.input_order = {};
  options_.parts = {};
  check_fields("task mnist", options);
  check_batch_size("mnist", length_, options_.batch);
  if (!options.parts.empty()) checksum_ = data_part::checksum_in("mnist", options.parts);
  if (!options_.permuted) return;
  if (order_was_given_) {
    if (!is_permutation(options.input_order)) {
      throw ValueError("task mnist: the input order is not a permutation of 0 .. T - 1");
    }
    length_ = options.input_order.size();
    check_batch_size("mnist", length_, options_.batch);
    input_order_.reserve({length_});
    copy(options.input_order, input_order_.view());
  } else {
    input_order_ = numpy_permutation(length_, options_.permutation_seed);
  }
}

double MnistTask::baseline_loss() const { return std::log(static_cast<double>(digits)); }

bool MnistTask::solved(const Evaluation& evaluation) const {
  return evaluation.metric("accuracy").value_or(0) >= (options_.permuted ? 0.95 : 0.98);
}

Index MnistTask::validation_count(Index images) const {
  return std::max<Index>(images / options_.validation_share, 1);
}

void MnistTask::load() const {
  if (training_.count() > 0) return;
  Images training = read_images("train");
  Images test = read_images("t10k");
  const Index pixels = training.pixels.size() / training.count();
  const Index test_pixels = test.pixels.size() / test.count();
  if (test_pixels != pixels) {
    throw FileError(fmt::format("{}: training images have {} pixels and test images {}, expected as many",
                                options_.data.string(), pixels, test_pixels));
  }
  if (order_was_given_ && pixels != length_) {
    throw FileError(
        fmt::format("{}: images have {} pixels, but the model's input order has {}; use the data that "
                    "it was trained with",
                    options_.data.string(), pixels, length_));
  }
  const std::string checksum = mnist_checksum(training.pixels, training.labels, test.pixels, test.labels);
  if (!checksum_.empty() && checksum_ != checksum) {
    throw FileError(fmt::format(
        "{} has other images than those that the model was trained with ({} there, {} here); name "
        "the data of the training, or use predict for images of your own",
        options_.data.string(), checksum_, checksum));
  }
  check_batch_size("mnist", pixels, options_.batch);
  const Index left = training.count() - validation_count(training.count());
  if (left < options_.batch) {
    throw ValueError(
        fmt::format("task mnist: the batch is {}, but {} has only {} images to train on, beside {} that are "
                    "held out for validation",
                    options_.batch, options_.data.string(), left, training.count() - left));
  }
  if (options_.permuted && pixels != length_) {
    input_order_ = numpy_permutation(pixels, options_.permutation_seed);
  }
  length_ = pixels;
  checksum_ = checksum;
  training_ = std::move(training);
  test_ = std::move(test);
  split_ = random_permutation(training_.count(), RandomStream(options_.seed, RandomPurpose::split));
  on_devices_.clear();
}

MnistTask::Images MnistTask::read_images(const char* set) const {
  Images images;
  read_mnist_images(MnistOptions::name, options_.data, set, images.pixels, images.labels);
  return images;
}

std::vector<TaskPart> MnistTask::parts() const {
  if (checksum_.empty()) load();
  return {{data_part::name, checksum_}};
}

std::optional<Index> MnistTask::batches_per_epoch() const {
  load();
  return training_images().size() / options_.batch;
}

ConstTensorView<std::int32_t> MnistTask::validation_images() const {
  return split_.view().slice(0, validation_count(split_.size()));
}

ConstTensorView<std::int32_t> MnistTask::training_images() const {
  const Index first = validation_count(split_.size());
  return split_.view().slice(first, split_.size() - first);
}

Index MnistTask::held_out_count(HeldOut set) const {
  return set == HeldOut::validation ? validation_images().size() : test_.count();
}

Index MnistTask::evaluation_batches(HeldOut set) const {
  load();
  return (held_out_count(set) + options_.batch - 1) / options_.batch;
}

void MnistTask::training_batch(std::uint64_t step, Batch& batch) const {
  const auto batches = static_cast<std::uint64_t>(*batches_per_epoch());
  const Index first = static_cast<Index>(step % batches) * options_.batch;
  const std::uint64_t epoch = step / batches;
  if (!batch.device().is_cuda()) return fill(training_, order_of_epoch(epoch), first, options_.batch, batch);
  OnDevice& data = on_device(batch.device());
  if (data.epoch != epoch) {
    copy<std::int32_t>(order_of_epoch(epoch), data.epoch_order);
    data.epoch = epoch;
  }
  fill(data.training, data.epoch_order, first, options_.batch, batch);
}

void MnistTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  const Index batches = evaluation_batches(set);
  if (number < 0 || number >= batches) {
    throw ValueError(
        fmt::format("task mnist: evaluation batch {} was asked for; there are {}", number, batches));
  }
  const Index first = number * options_.batch;
  const Index count = std::min(options_.batch, held_out_count(set) - first);
  const bool on_gpu = batch.device().is_cuda();
  if (set == HeldOut::test) {
    return fill(on_gpu ? on_device(batch.device()).test : test_, {}, first, count, batch);
  }
  if (!on_gpu) return fill(training_, validation_images(), first, count, batch);
  const OnDevice& data = on_device(batch.device());
  fill(data.training, data.validation, first, count, batch);
}

ConstTensorView<std::int32_t> MnistTask::order_of_epoch(std::uint64_t epoch) const {
  if (epoch_ != epoch) {
    epoch_order_.reserve({training_images().size()});
    random_permutation(epoch_order_, RandomStream(options_.seed, RandomPurpose::shuffle, epoch));
    for (std::int32_t& image : epoch_order_) image = training_images()(image);
    epoch_ = epoch;
  }
  return epoch_order_;
}

MnistTask::OnDevice& MnistTask::on_device(Device device) const {
  const auto found = std::ranges::find(on_devices_, device, &OnDevice::device);
  if (found != on_devices_.end()) return *found;
  const auto copied = [&](const Images& images) {
    return Images{.pixels = images.pixels.copy(device), .labels = images.labels.copy(device)};
  };
  on_devices_.push_back({.device = device,
                         .training = copied(training_),
                         .test = copied(test_),
                         .validation = Tensor<std::int32_t>(Shape{validation_images().size()}, device),
                         .input_order = input_order_.copy(device),
                         .epoch_order = Tensor<std::int32_t>(Shape{training_images().size()}, device),
                         .epoch = std::nullopt});
  copy<std::int32_t>(validation_images(), on_devices_.back().validation);
  return on_devices_.back();
}

void MnistTask::fill(const Images& images, ConstTensorView<std::int32_t> order, Index first, Index count,
                     Batch& batch) const {
  Tensor<float>& features = batch.reals(batch_names::features);
  Tensor<std::int32_t>& classes = batch.integers(batch_names::classes);
  features.reserve({length_, count, 1});
  classes.reserve({count});
  const ConstTensorView<std::int32_t> input_order =
      batch.device().is_cuda() ? on_device(batch.device()).input_order : input_order_;
  for_each_entry(batch.device(), count, length_,
                 pointwise::MnistBatch{.pixels = images.pixels.data(),
                                       .labels = images.labels.data(),
                                       .order = order.empty() ? nullptr : order.data(),
                                       .first = first,
                                       .input_order = input_order.empty() ? nullptr : input_order.data(),
                                       .length = length_,
                                       .batch = count,
                                       .features = features.data(),
                                       .classes = classes.data()});
}

void MnistTask::count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                              TensorView<double> sums) const {
  const ConstTensorView<std::int32_t> targets = batch.integers(batch_names::classes);
  check_shape("outputs of task mnist", outputs.shape(), {targets.size(), digits});
  count_right(outputs, targets, sums[0]);
}

std::string MnistTask::config() const { return json_object(options_, "task").dump(); }

}  // namespace orthornn
