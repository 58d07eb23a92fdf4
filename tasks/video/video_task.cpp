#include "orthornn/tasks/video_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/fields_json.hpp"
#include "core/for_each.hpp"
#include "orthornn/core/error.hpp"
#include "pointwise/video.hpp"
#include "tasks/batch_size.hpp"
#include "tasks/data_part.hpp"
#include "tasks/held_out_stream.hpp"
#include "tasks/mnist/mnist_images.hpp"

namespace orthornn {
namespace {

// Rows and columns of a window of the structural similarity.
constexpr Index window = 7;

// Pixels a frame by which a digit moves along an axis, at most.
constexpr std::uint32_t most_speed = 4;

// The mean of x + x^2 over the pixels x of 20,000 clips of MNIST's test images, the loss of a black frame.
// Black is the best guess of a pixel that is lit in a quarter of the clips at most.
constexpr double loss_of_black_mnist = 0.0918;

}  // namespace

VideoTask::VideoTask(const VideoOptions& options) : options_(options) {
  check_fields("task video", options);
  check_batch_size("video", options.frames, options.batch);
  if (options.clips == Clips::mnist) {
    if (!options.parts.empty()) checksum_ = data_part::checksum_in(VideoOptions::name, options.parts);
  } else if (!options.parts.empty()) {
    throw ValueError("task video: parts were given, but clips of squares have none");
  }
  options_.parts.clear();
}

SequenceData VideoTask::data() const {
  const Index size = frame_size(), pixels = size * size;
  return {.features = pixels, .values = pixels, .height = size, .width = size, .every_step = true};
}

void VideoTask::load() const {
  if (options_.clips != Clips::mnist || !images_.empty()) return;
  Images found{.device = Device::cpu(), .training = {}, .test = {}};
  Tensor<std::uint8_t> labels, test_labels;
  read_mnist_images(VideoOptions::name, options_.data, "train", found.training, labels);
  read_mnist_images(VideoOptions::name, options_.data, "t10k", found.test, test_labels);
  if (found.training.shape()[0] < 2) {
    throw FileError(fmt::format("{} has one training image; expected another one for validation",
                                options_.data.string()));
  }
  for (const Tensor<std::uint8_t>* images : {&found.training, &found.test}) {
    const Shape& shape = images->shape();
    if (shape[1] >= frame_size() || shape[2] >= frame_size()) {
      throw FileError(fmt::format("{}: images have {} x {} pixels; expected fewer than the {} of a frame",
                                  options_.data.string(), shape[1], shape[2], frame_size()));
    }
  }
  const std::string checksum = mnist_checksum(found.training, labels, found.test, test_labels);
  if (!checksum_.empty() && checksum_ != checksum) {
    throw FileError(
        fmt::format("{} has other images than those that the model was trained with ({} there, {} "
                    "here); name the data of the training",
                    options_.data.string(), checksum_, checksum));
  }
  checksum_ = checksum;
  images_.push_back(std::move(found));
}

std::vector<TaskPart> VideoTask::parts() const {
  if (options_.clips != Clips::mnist) return {};
  if (checksum_.empty()) load();
  return {{data_part::name, checksum_}};
}

const VideoTask::Images& VideoTask::images_on(Device device) const {
  load();
  const auto found = std::ranges::find(images_, device, &Images::device);
  if (found != images_.end()) return *found;
  const Images& here = images_.front();
  images_.push_back(
      {.device = device, .training = here.training.copy(device), .test = here.test.copy(device)});
  return images_.back();
}

double VideoTask::baseline_loss() const {
  if (options_.clips == Clips::mnist) return loss_of_black_mnist;
  // Shares of the frames in which the square covers a row; all phases are equally likely.
  const Index size = frame_size(), most = size - square_size;
  std::vector<double> share(static_cast<std::size_t>(size));
  for (Index phase = 0; phase < 2 * most; ++phase) {
    for (Index row = 0; row < square_size; ++row)
      share[static_cast<std::size_t>(pointwise::bouncing_place(phase, most) + row)] +=
          0.5 / static_cast<double>(most);
  }
  double loss = 0;
  for (const double rows : share) {
    for (const double columns : share) {
      // Of a pixel that is 1 with probability p, p ((1 - v) + (1 - v)^2) + (1 - p) (v + v^2) is smallest at
      // v.
      const double p = rows * columns, v = std::clamp(2 * p - 0.5, 0.0, 1.0);
      loss += p * (1 - v) * (2 - v) + (1 - p) * v * (1 + v);
    }
  }
  return loss / static_cast<double>(size * size);
}

void VideoTask::training_batch(std::uint64_t step, Batch& batch) const {
  fill(nullptr, step * static_cast<std::uint64_t>(options_.batch), options_.batch, batch);
}

Index VideoTask::evaluation_batches(HeldOut set) const {
  return ((set == HeldOut::validation ? validation_clips : test_clips) + options_.batch - 1) / options_.batch;
}

void VideoTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  const Index first = number * options_.batch;
  fill(&set, static_cast<std::uint64_t>(first),
       std::min(options_.batch, (set == HeldOut::test ? test_clips : validation_clips) - first), batch);
}

/// Clips of a set, or training clips where `set` is null.
void VideoTask::fill(const HeldOut* set, std::uint64_t first, Index count, Batch& batch) const {
  if (options_.clips == Clips::squares)
    return fill(pointwise::SquareScene{frame_size(), square_size}, set, first, count, batch);
  const Images& images = images_on(batch.device());
  const bool is_test = set != nullptr && *set == HeldOut::test;
  const Tensor<std::uint8_t>& all = is_test ? images.test : images.training;
  const Index held_out = is_test ? 0 : std::max<Index>(all.shape()[0] / 12, 1);
  const TensorView<const std::uint8_t> chosen = is_test ? all.view()
                                                : set != nullptr
                                                    ? all.view().slice(0, held_out)
                                                    : all.view().slice(held_out, all.shape()[0] - held_out);
  fill(pointwise::ImageScene{.images = chosen.data(),
                             .count = chosen.shape()[0],
                             .height = chosen.shape()[1],
                             .width = chosen.shape()[2],
                             .frame_size = frame_size(),
                             .most_speed = most_speed},
       set, first, count, batch);
}

template <class Scene>
void VideoTask::fill(const Scene& scene, const HeldOut* set, std::uint64_t first, Index count,
                     Batch& batch) const {
  const bool is_test = set != nullptr && *set == HeldOut::test;
  const Shape shape{length(), count, frame_size() * frame_size()};
  Tensor<float>& features = batch.reals(batch_names::features);
  Tensor<float>& values = batch.reals(batch_names::values);
  features.reserve(shape);
  values.reserve(shape);
  const SequenceStreams streams{.seed = is_test ? 0 : options_.seed,  // all seeds have the same test clips
                                .purpose = set == nullptr ? RandomPurpose::training : held_out_stream(*set),
                                .first = first};
  for_each_entry(batch.device(), frame_size(), options_.frames * count,
                 pointwise::ClipBatch<Scene>{.scene = scene,
                                             .streams = streams,
                                             .length = length(),
                                             .batch = count,
                                             .features = features.data(),
                                             .values = values.data()});
}

std::vector<Metric> VideoTask::metrics() const {
  return {{"mse", "MSE", /*is_share=*/false},
          {"mae", "MAE", /*is_share=*/false},
          {"ssim", "SSIM", /*is_share=*/false},
          {"psnr", "PSNR", /*is_share=*/false}};
}

void VideoTask::count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                              TensorView<double> sums) const {
  const ConstTensorView<float> values = batch.needed_reals(batch_names::values);
  check_shape("outputs of task video", outputs.shape(), values.shape());
  check_shape("sums", sums.shape(), counters());
  const Device device = outputs.device();
  const Index frames = values.shape()[0] * values.shape()[1], size = frame_size();
  if (!(row_sums_.device() == device)) row_sums_ = Tensor<double>(Shape{0}, device);
  row_sums_.reserve({frames, size, 3});
  for_each_entry(device, size, frames,
                 pointwise::FrameRowErrors{.outputs = outputs.data(),
                                           .values = values.data(),
                                           .sums = row_sums_.data(),
                                           .height = size,
                                           .width = size,
                                           .window = window});
  for_each(device, std::ssize(metrics()),
           pointwise::AddFrameMetrics{.sums = row_sums_.data(),
                                      .totals = sums.data(),
                                      .frames = frames,
                                      .height = size,
                                      .width = size,
                                      .window = window});
}

std::unique_ptr<Task> VideoTask::with_length(Index length, Index batch) const {
  VideoOptions options = options_;
  options.frames = length + 1;
  options.batch = batch;
  if (!checksum_.empty()) options.parts = {{data_part::name, checksum_}};
  return std::make_unique<VideoTask>(options);
}

std::string VideoTask::config() const { return json_object(options_, "task").dump(); }

}  // namespace orthornn
