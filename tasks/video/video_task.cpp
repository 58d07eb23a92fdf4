#include "orthornn/tasks/video_task.hpp"

#include <algorithm>

#include "core/fields_json.hpp"
#include "core/for_each.hpp"
#include "orthornn/core/error.hpp"
#include "pointwise/video.hpp"
#include "tasks/batch_size.hpp"

namespace orthornn {
namespace {

// Rows and columns of a window of the structural similarity.
constexpr Index window = 7;

}  // namespace

VideoTask::VideoTask(const VideoOptions& options) : options_(options) {
  check_fields("task video", options);
  check_batch_size("video", options.frames, options.batch);
}

SequenceData VideoTask::data() const {
  constexpr Index pixels = frame_size * frame_size;
  return {
      .features = pixels, .values = pixels, .height = frame_size, .width = frame_size, .every_step = true};
}

double VideoTask::baseline_loss() const {
  // Shares of the frames in which the square covers a row; all phases are equally likely.
  constexpr Index most = frame_size - square_size;
  double share[frame_size] = {};
  for (Index phase = 0; phase < 2 * most; ++phase) {
    for (Index row = 0; row < square_size; ++row)
      share[pointwise::bouncing_place(phase, most) + row] += 0.5 / static_cast<double>(most);
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
  return loss / static_cast<double>(frame_size * frame_size);
}

void VideoTask::training_batch(std::uint64_t step, Batch& batch) const {
  fill(options_.seed, RandomPurpose::training, step * static_cast<std::uint64_t>(options_.batch),
       options_.batch, batch);
}

Index VideoTask::evaluation_batches(HeldOut set) const {
  return ((set == HeldOut::validation ? validation_clips : test_clips) + options_.batch - 1) / options_.batch;
}

void VideoTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  const bool is_test = set == HeldOut::test;
  const Index first = number * options_.batch;
  fill(is_test ? 0 : options_.seed, is_test ? RandomPurpose::test : RandomPurpose::validation,
       static_cast<std::uint64_t>(first),
       std::min(options_.batch, (is_test ? test_clips : validation_clips) - first), batch);
}

void VideoTask::fill(std::uint64_t seed, RandomPurpose purpose, std::uint64_t first, Index count,
                     Batch& batch) const {
  const Shape shape{length(), count, frame_size * frame_size};
  Tensor<float>& features = batch.reals(batch_names::features);
  Tensor<float>& values = batch.reals(batch_names::values);
  features.reserve(shape);
  values.reserve(shape);
  for_each_entry(batch.device(), count, options_.frames,
                 pointwise::SquaresBatch{.streams = {.seed = seed, .purpose = purpose, .first = first},
                                         .frame_size = frame_size,
                                         .square_size = square_size,
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
  const Index frames = values.shape()[0] * values.shape()[1];
  if (!(row_sums_.device() == device)) row_sums_ = Tensor<double>(Shape{0}, device);
  row_sums_.reserve({frames, frame_size, 3});
  for_each_entry(device, frame_size, frames,
                 pointwise::FrameRowErrors{.outputs = outputs.data(),
                                           .values = values.data(),
                                           .sums = row_sums_.data(),
                                           .height = frame_size,
                                           .width = frame_size,
                                           .window = window});
  for_each(device, std::ssize(metrics()),
           pointwise::AddFrameMetrics{.sums = row_sums_.data(),
                                      .totals = sums.data(),
                                      .frames = frames,
                                      .height = frame_size,
                                      .width = frame_size,
                                      .window = window});
}

std::unique_ptr<Task> VideoTask::with_length(Index length, Index batch) const {
  VideoOptions options = options_;
  options.frames = length + 1;
  options.batch = batch;
  return std::make_unique<VideoTask>(options);
}

std::string VideoTask::config() const { return json_object(options_, "task").dump(); }

}  // namespace orthornn
