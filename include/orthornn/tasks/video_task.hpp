#pragma once

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

class VideoTask;

/// Options of a VideoTask.
struct VideoOptions {
  using Made = VideoTask;
  static constexpr const char* name = "video";  ///< Name in files and on the command line.
  /// Frames of a clip, 2 or more. The last one is a target alone.
  Index frames = 20;
  /// Clips B of a batch, >= 1.
  Index batch = 32;
  /// Seed of the training and validation clips.
  std::uint64_t seed = 1;

  /// Fields in `Task::config()`; the others are fields of TaskSource.
  static void fields(auto&& visit) {
    visit("frames", &VideoOptions::frames, Domain{.low = 2}, "frames of a clip");
  }
};

/// Prediction of the next frame of a clip. The features [T, B, H W] of a clip of T + 1 frames are its frames
/// but the last, gray from 0 to 1, row by row. The target values [T, B, H W] of a step are the frame after
/// it. The loss is the mean over all pixels of |output - value| + (output - value)^2.
///
/// A clip shows a white square of 3 x 3 pixels on a black frame of 8 x 8. It moves by one pixel along each
/// axis at each frame, and bounces off the border. One frame does not tell where it moves, two frames do.
/// There are 100 different clips.
///
/// A clip depends on the seed, its set and its number alone; test clips on their number alone.
class VideoTask final : public Task {
 public:
  /// Rows of a frame, and its columns.
  static constexpr Index frame_size = 8;
  /// Rows of the square, and its columns.
  static constexpr Index square_size = 3;
  /// Number of validation clips.
  static constexpr Index validation_clips = 256;
  /// Number of test clips.
  static constexpr Index test_clips = 1000;

  /// Makes the task. Throws ValueError for an option outside its domain and for 2^31 steps or more in a
  /// batch.
  explicit VideoTask(const VideoOptions& options = {});

  std::string name() const override { return VideoOptions::name; }
  SequenceData data() const override;
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  Index length() const override { return options_.frames - 1; }
  /// Loss of the best frame that is the same for all clips and steps.
  double baseline_loss() const override;
  /// Whether the loss is below half of the baseline. The best answer that looks at one frame alone has two
  /// thirds of it.
  bool solved(const Evaluation& evaluation) const override { return evaluation.loss < baseline_loss() / 2; }

  void training_batch(std::uint64_t step, Batch& batch) const override;
  Index evaluation_batches(HeldOut set) const override;
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  /// Means over all predicted frames: "mse", the squared error of a pixel; "mae", its absolute error; "ssim",
  /// the structural similarity (Wang et al., IEEE Transactions on Image Processing 2004) with a uniform
  /// window of 7 x 7 and sample covariances; "psnr", 10 log10(1 / squared error) in decibels, at most 100.
  std::vector<Metric> metrics() const override;
  void count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                     TensorView<double> sums) const override;

  /// Makes this task with clips of `length` + 1 frames. Throws ValueError as the constructor.
  std::unique_ptr<Task> with_length(Index length, Index batch) const override;
  std::string config() const override;

 private:
  void fill(std::uint64_t seed, RandomPurpose purpose, std::uint64_t first, Index count, Batch& batch) const;

  VideoOptions options_;
  /// Sums of the rows of frames in `count_metrics`, kept so that the next evaluation takes no memory.
  mutable Tensor<double> row_sums_;
};

}  // namespace orthornn
