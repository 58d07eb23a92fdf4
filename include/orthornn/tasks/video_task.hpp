#pragma once

#include <array>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

class VideoTask;

/// What the clips of a VideoTask show.
enum class Clips {
  squares,  ///< A white square that bounces in frames of 8 x 8 pixels.
  mnist,    ///< Moving MNIST: two handwritten digits that bounce in frames of 64 x 64 pixels.
  own       ///< Videos of a user's own.
};
template <>
struct Names<Clips> {
  using enum Clips;
  static constexpr Choice<Clips> list[] = {{"squares", squares}, {"mnist", mnist}, {"own", own}};
};

/// Options of a VideoTask.
struct VideoOptions {
  using Made = VideoTask;
  static constexpr const char* name = "video";  ///< Name in files and on the command line.
  /// What `Task::own_inputs` reads for a model of the task, as messages name it.
  static constexpr const char* own_forms =
      "a folder of gray images, a folder of such folders, or an .npy or .npz file";
  /// What the clips show.
  Clips clips = Clips::squares;
  /// For clips of mnist the folder with the four IDX files; for own ones a folder of images, a folder of such
  /// folders, or an .npy or .npz file (docs/video.md). Empty for squares.
  std::filesystem::path data = {};
  /// Parts of the task of a model trained before (VideoTask::parts), whose data must be equal. Empty: data
  /// are not compared.
  std::vector<TaskPart> parts = {};
  /// Frames of a clip, 2 or more. The last one is a target alone.
  Index frames = 20;
  /// Clips B of a batch, >= 1.
  Index batch = 32;
  /// Seed of the training and validation clips.
  std::uint64_t seed = 1;

  /// Fields in `Task::config()`; the others are fields of TaskSource.
  static void fields(auto&& visit) {
    visit("clips", &VideoOptions::clips, domain::any,
          "squares that bounce in 8 x 8 pixels; mnist: two digits in 64 x 64; or own, of --data");
    visit("frames", &VideoOptions::frames, Domain{.low = 2}, "frames of a clip");
  }

  /// Folder into which tools/fetch-data puts the data of these clips; "" for others.
  const char* usual_data() const { return clips == Clips::mnist ? "data/mnist" : ""; }
};

/// Prediction of the next frame of a clip. The features [T, B, H W] of a clip of T + 1 frames are its frames
/// but the last, gray from 0 to 1, row by row. The target values [T, B, H W] of a step are the frame after
/// it. The loss is the mean over all pixels of |output - value| + (output - value)^2.
///
/// A clip of squares shows a white square of 3 x 3 pixels on a black frame of 8 x 8. It moves by one pixel
/// along each axis at each frame, and bounces off the border. One frame does not tell where it moves, two
/// frames do. There are 100 different clips.
///
/// A clip of mnist shows two images of MNIST on a black frame of 64 x 64 (Moving MNIST; Srivastava, Mansimov
/// and Salakhutdinov, "Unsupervised learning of video representations using LSTMs", ICML 2015). Each moves by
/// 1 to 4 pixels a frame along each axis, and bounces off the border. Where they overlap, the brighter pixel
/// is seen. Clips of a set show images of that set alone: the first twelfth of the training images is for
/// validation.
///
/// Files are read when they are first needed, and kept on a GPU too from the first batch that lies there, so
/// one thread at a time may use the task.
///
/// A clip of squares or mnist depends on the seed, its set and its number alone; test clips on their number
/// alone.
///
/// Own clips are pieces of videos, which do not overlap; frames after the last whole piece of a video are
/// left out. A tenth of the videos, one at least, is test data, another tenth is validation data, and the
/// seed draws which. One or two videos are divided in time: eight tenths, then a tenth for validation, then a
/// tenth for test. A training batch draws its pieces. The videos are kept in memory, on a GPU too.
class VideoTask final : public Task {
 public:
  /// Rows of the square, and its columns.
  static constexpr Index square_size = 3;
  /// Number of validation clips.
  static constexpr Index validation_clips = 256;
  /// Number of test clips.
  static constexpr Index test_clips = 1000;

  /// Makes the task; reads no file. Throws ValueError for an option outside its domain, for 2^31 steps or
  /// more in a batch, for data of squares, and for parts that are not those of such a task.
  explicit VideoTask(const VideoOptions& options = {});

  std::string name() const override { return VideoOptions::name; }
  SequenceData data() const override;
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  Index length() const override { return options_.frames - 1; }
  /// Loss of the best frame that is the same for all clips and steps; of mnist that of a black one with the
  /// images of MNIST, 0.092; of own clips that of the best frame of one gray, among 256 grays, for the
  /// training clips. It reads the data of own clips, and throws as `load`.
  double baseline_loss() const override;
  /// Whether the loss is below half of the baseline. For squares the best answer that looks at one frame
  /// alone has two thirds of it. False for own clips: what counts as learned only their owner knows.
  bool solved(const Evaluation& evaluation) const override {
    return options_.clips != Clips::own && evaluation.loss < baseline_loss() / 2;
  }

  /// Rows and columns of a frame. It reads the data of own clips unless the options had the parts, and throws
  /// as `load`.
  std::array<Index, 2> frame_size() const;

  /// Reads the data of mnist and own clips unless they have been read. Throws FileError for a file that is
  /// missing or damaged, for images of mnist that are no smaller than a frame, for own clips that have no
  /// piece for one of the sets, and for data other than those of the parts.
  void load() const override;
  /// Returns how own clips are divided, and how many frames no piece has; empty for others.
  std::string left_out() const override;
  void training_batch(std::uint64_t step, Batch& batch) const override;
  Index evaluation_batches(HeldOut set) const override;
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  /// Means over all predicted frames: "mse", the squared error of a pixel; "mae", its absolute error; "ssim",
  /// the structural similarity (Wang et al., IEEE Transactions on Image Processing 2004) with a uniform
  /// window of 7 x 7 and sample covariances; "psnr", 10 log10(1 / squared error) in decibels, at most 100.
  std::vector<Metric> metrics() const override;
  void count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                     TensorView<double> sums) const override;

  /// Clips of a place with one of the forms of own clips: pixels of all frames row by row, gray from 0 to 1,
  /// [S, H W]. No value for a regular file that is no image and no array of NumPy. Throws FileError for what
  /// is no such place, and for frames of another size.
  std::optional<SequenceInputs> own_inputs(const std::filesystem::path& place) const override;

  /// The features as they are. Throws ValueError for pixels that are no gray from 0 to 1.
  Tensor<float> own_features(ConstTensorView<float> features) const override;

  /// Makes this task with clips of `length` + 1 frames, which shares the data with this one: one thread at a
  /// time may use the two. Throws ValueError as the constructor.
  std::unique_ptr<Task> with_length(Index length, Index batch) const override;
  std::string config() const override;
  /// The part "data" of mnist and own clips, a checksum, and "frame_size" of own ones, rows and columns, as
  /// "48 x 64". Reads the data unless the options had the parts, and throws as `load`.
  std::vector<TaskPart> parts() const override;

 private:
  class Files;
  /// First frames of the pieces of own clips, of training, validation and test data one after the other.
  struct Pieces {
    Device device;
    Tensor<std::int64_t> first;
  };

  template <class Scene>
  void fill(const Scene& scene, HeldOut const* set, std::uint64_t first, Index count, Batch& batch) const;
  template <class Gray>
  void fill_own(TensorView<const Gray> grays, HeldOut const* set, std::uint64_t first, Index count,
                Batch& batch) const;
  void fill(HeldOut const* set, std::uint64_t first, Index count, Batch& batch) const;
  void fill_mnist(HeldOut const* set, std::uint64_t first, Index count, Batch& batch) const;
  Index held_out_clips(HeldOut set) const;
  void cut_pieces() const;
  TensorView<const std::int64_t> pieces_on(Device device, std::size_t set) const;

  VideoOptions options_;
  // What is there once the files or the parts are.
  mutable std::string checksum_;
  mutable std::array<Index, 2> own_size_ = {};
  /// Shared by tasks of other lengths.
  mutable std::shared_ptr<Files> files_;
  /// The pieces of the host come first.
  mutable std::list<Pieces> pieces_;
  /// Pieces of training, validation and test data.
  mutable std::array<Index, 3> piece_counts_ = {};
  mutable std::string division_;
  mutable std::optional<double> own_baseline_;
  /// Sums of the rows of frames in `count_metrics`, kept so that the next evaluation takes no memory.
  mutable Tensor<double> row_sums_;
};

}  // namespace orthornn
