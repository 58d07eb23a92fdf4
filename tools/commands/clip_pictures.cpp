#include "commands/clip_pictures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "commands/program.hpp"
#include "core/host_copy.hpp"
#include "io/png.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/train/model_file.hpp"
#include "train/frames_ahead.hpp"

namespace orthornn::program {
namespace {

constexpr Index most_clips = 2;
/// Frames in a row, and those of them that are predicted ahead.
constexpr Index most_steps_drawn = 20, most_steps_ahead = 10;
/// Milliseconds of a frame of an animation.
constexpr int frame_time = 250;
/// A frame has so many pixels of a screen, or fewer, along its longer side.
constexpr Index size_on_screen = 64;
/// Larger frames are drawn smaller, so that a page stays small.
constexpr Index most_pixels_drawn = 128;

/// Pixels along a side of the blocks that are drawn as one pixel.
Index block_of(std::array<Index, 2> frame) {
  return (std::max(frame[0], frame[1]) + most_pixels_drawn - 1) / most_pixels_drawn;
}

/// Rows and columns of a frame as it is drawn.
std::array<Index, 2> drawn_size(std::array<Index, 2> frame) {
  const Index block = block_of(frame);
  return {(frame[0] + block - 1) / block, (frame[1] + block - 1) / block};
}

/// The mean gray of a block of a frame, whose grays beyond 0 and 1 are black and white.
float mean_of_block(std::array<Index, 2> frame, TensorView<const float> grays, Index row, Index column) {
  const Index block = block_of(frame), last_y = std::min((row + 1) * block, frame[0]),
              last_x = std::min((column + 1) * block, frame[1]);
  float sum = 0;
  for (Index y = row * block; y < last_y; ++y) {
    for (Index x = column * block; x < last_x; ++x) sum += std::clamp(grays(y * frame[1] + x), 0.0F, 1.0F);
  }
  return sum / static_cast<float>((last_y - row * block) * (last_x - column * block));
}

/// A picture of frames with a gray line between them.
class Canvas {
 public:
  Canvas(std::array<Index, 2> size, Index rows, Index columns)
      : size_(size),
        frame_(drawn_size(size)),
        image_{.height = rows * (frame_[0] + 1) - 1, .width = columns * (frame_[1] + 1) - 1} {
    constexpr std::uint8_t between = 128;
    image_.pixels.assign(static_cast<std::size_t>(image_.height * image_.width), between);
  }
  /// Draws grays from 0 to 1; what is beyond them is black or white.
  void draw(Index row, Index column, TensorView<const float> grays) {
    for (Index i = 0; i < frame_[0] * frame_[1]; ++i) {
      const Index y = row * (frame_[0] + 1) + i / frame_[1], x = column * (frame_[1] + 1) + i % frame_[1];
      const float gray = mean_of_block(size_, grays, i / frame_[1], i % frame_[1]);
      image_.pixels[static_cast<std::size_t>(y * image_.width + x)] =
          static_cast<std::uint8_t>(std::lround(255 * gray));
    }
  }
  const GrayImage& image() const { return image_; }

 private:
  std::array<Index, 2> size_, frame_;
  GrayImage image_;
};

/// Of some clips, [steps, clips, pixels]: the frames after each step, those that are predicted of the true
/// frames before, and the last ones again: the first of them predicted of the true frames before it, each
/// later one of predictions too.
struct PredictedClips {
  Tensor<float> expected = {}, next = {}, ahead = {};

  Index steps() const { return expected.shape()[0]; }
  /// The first step whose frame is predicted ahead. Only the frames after it are predicted of predictions.
  Index first_ahead() const { return steps() - ahead.shape()[0]; }
};

PredictedClips predicted_clips(SequenceModel<float>& model, const Task& task) {
  Batch batch;
  const std::unique_ptr<Task> few = task.with_length(task.length(), most_clips);
  if (few == nullptr)
    throw ValueError(fmt::format("the task {} has no batches of {} clips", task.name(), most_clips));
  few->evaluation_batch(HeldOut::test, 0, batch);
  const ConstTensorView<float> features = batch.needed_reals(batch_names::features),
                               values = batch.needed_reals(batch_names::values);
  const Index steps = features.shape()[0], clips = features.shape()[1], pixels = features.shape()[2];
  const Index ahead = std::min((steps + 1) / 2, most_steps_ahead);
  PredictedClips found{.expected = Tensor<float>({steps, clips, pixels})};
  Batch all, seen;
  all.reals(batch_names::features).resize({steps, clips, pixels});
  for (Index t = 0; t < steps; ++t) {
    copy<float>(values[t], found.expected.view()[t]);
    copy<float>(features[t], all.reals(batch_names::features).view()[t]);
  }
  found.next = host_copy(model.forward(all));
  Tensor<float>& first = seen.reals(batch_names::features);
  first.resize({steps + 1 - ahead, clips, pixels});
  copy<float>(all.needed_reals(batch_names::features).slice(0, steps + 1 - ahead), first.view());
  found.ahead = outputs_ahead(model, seen, ahead);
  return found;
}

/// The frames of a step, in a column or a row of the canvas: `draw(number, grays)`.
template <class Draw>
void draw_step(const PredictedClips& clips, Index step, Index clip, const Draw& draw) {
  draw(0, clips.expected.view()[step][clip]);
  draw(1, clips.next.view()[step][clip]);
  if (step >= clips.first_ahead()) draw(2, clips.ahead.view()[step - clips.first_ahead()][clip]);
}

Picture picture_of(const std::string& title, const std::string& caption, const GrayImage& image, Index scale,
                   std::string bytes) {
  return {.title = title,
          .caption = caption,
          .height = image.height * scale,
          .width = image.width * scale,
          .png = std::move(bytes)};
}

}  // namespace

void check_ahead(const std::string& file, const Task* task, const std::string& name) {
  if (task != nullptr && predicts_frames(task->data())) return;
  throw UsageError(fmt::format("--ahead is for models of frames, and '{}' is of {}", file,
                               name.empty() ? "no task" : "the task " + name));
}

std::vector<Picture> clip_pictures(const std::filesystem::path& file, const Task& task) {
  const auto model = load_model(file);
  task.load();
  const PredictedClips clips = predicted_clips(*model, task);
  const SequenceData data = task.data();
  const std::array<Index, 2> size{data.height, data.width}, drawn = drawn_size(size);
  const Index steps = clips.steps(), ahead = clips.ahead.shape()[0],
              first = std::max<Index>(steps - most_steps_drawn, 0);
  const Index scale = std::max<Index>(size_on_screen / std::max(drawn[0], drawn[1]), 1);
  const std::string of_last = fmt::format(
      "the last {} predicted ahead, the first from true frames alone, each later one from predictions too",
      ahead);
  std::vector<Picture> pictures;
  for (Index clip = 0; clip < clips.expected.shape()[1]; ++clip) {
    Canvas row(size, 3, steps - first);
    std::vector<GrayImage> frames;
    for (Index step = first; step < steps; ++step) {
      draw_step(clips, step, clip,
                [&](Index number, TensorView<const float> grays) { row.draw(number, step - first, grays); });
      Canvas three(size, 1, 3);
      draw_step(clips, step, clip,
                [&](Index number, TensorView<const float> grays) { three.draw(0, number, grays); });
      frames.push_back(three.image());
    }
    pictures.push_back(picture_of(
        fmt::format("test clip {}: frames {} to {}", clip + 1, first + 2, steps + 1),
        fmt::format("From top to bottom: the true frames; each predicted from the true frames before it; {}.",
                    of_last),
        row.image(), scale, png::still(row.image())));
    pictures.push_back(picture_of(
        fmt::format("test clip {} as an animation", clip + 1),
        fmt::format("From left to right: the true frames; each predicted from the true frames before it; {}.",
                    of_last),
        frames.front(), 2 * scale, png::animation(frames, frame_time)));
  }
  return pictures;
}

}  // namespace orthornn::program
