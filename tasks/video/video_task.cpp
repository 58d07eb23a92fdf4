#include "orthornn/tasks/video_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/fields_json.hpp"
#include "core/for_each.hpp"
#include "io/gray_image.hpp"
#include "orthornn/core/error.hpp"
#include "pointwise/video.hpp"
#include "tasks/batches.hpp"
#include "tasks/data_part.hpp"
#include "tasks/video/own_clips.hpp"
#include "tasks/video/video_files.hpp"

namespace orthornn {
namespace {

// Rows and columns of a window of the structural similarity.
constexpr Index window = 7;

// Rows of a frame of mnist clips, and its columns.
constexpr Index mnist_frame_size = 64;

constexpr const char* frame_size_part = "frame_size";

// Pixels a frame by which a digit moves along an axis, at most.
constexpr std::uint32_t most_speed = 4;

// Whether a place may have clips, also where nothing is there or where it is a single image: what is read
// then says what it expects.
bool may_be_clips(const std::filesystem::path& place) {
  const std::string extension = place.extension().string();
  std::error_code ignored;
  return !std::filesystem::is_regular_file(place, ignored) || extension == ".npy" || extension == ".npz" ||
         is_image_name(place);
}

// The mean of x + x^2 over the pixels x of 20,000 clips of MNIST's test images, the loss of a black frame.
// Black is the best guess of a pixel that is lit in a quarter of the clips at most.
constexpr double loss_of_black_mnist = 0.0918;

/// Rows and columns of the text of the part, "48 x 64".
std::array<Index, 2> frame_size_in(const std::vector<TaskPart>& parts) {
  const std::string text = data_part::checksum_in(VideoOptions::name, parts, frame_size_part);
  std::array<Index, 2> size{};
  const char* const end = text.data() + text.size();
  const auto height = std::from_chars(text.data(), end, size[0]);
  const std::string_view between = " x ";
  const bool goes_on =
      std::string_view(height.ptr, static_cast<std::size_t>(end - height.ptr)).starts_with(between);
  if (height.ec == std::errc() && goes_on) {
    const auto width = std::from_chars(height.ptr + between.size(), end, size[1]);
    constexpr Index most = 1 << 20;
    if (width.ec == std::errc() && width.ptr == end && std::min(size[0], size[1]) > 0 &&
        std::max(size[0], size[1]) <= most)
      return size;
  }
  throw ValueError(fmt::format("task video: the part '{}' is '{}'; expected rows and columns, as 48 x 64",
                               frame_size_part, text));
}

}  // namespace

VideoTask::VideoTask(const VideoOptions& options) : options_(options) {
  check_fields("task video", options);
  check_batch_size("video", options.frames, options.batch);
  if (options.clips == Clips::squares) {
    if (!options.parts.empty())
      throw ValueError("task video: parts were given, but clips of squares have none");
    if (!options.data.empty()) {
      throw ValueError(
          fmt::format("task video: data were given, '{}', and clips of squares are made without "
                      "any; expected no --data, or --clips own or mnist",
                      options.data.string()));
    }
  }
  if (!options.parts.empty()) {
    checksum_ = data_part::checksum_in(VideoOptions::name, options.parts);
    if (options.clips == Clips::own) own_size_ = frame_size_in(options.parts);
  }
  options_.parts.clear();
}

std::array<Index, 2> VideoTask::frame_size() const {
  if (options_.clips == Clips::squares) return {8, 8};
  if (options_.clips == Clips::mnist) return {mnist_frame_size, mnist_frame_size};
  if (own_size_[0] == 0) load();
  return own_size_;
}

SequenceData VideoTask::data() const {
  const auto [height, width] = frame_size();
  const Index pixels = height * width;
  return {.features = pixels,
          .values = pixels,
          .height = height,
          .width = width,
          .every_step = true,
          .is_forecast = true};
}

void VideoTask::load() const {
  if (options_.clips == Clips::squares) return;
  if (files_ == nullptr) {
    auto files = std::make_shared<Files>(options_);
    if (!checksum_.empty() && checksum_ != files->checksum()) {
      throw FileError(
          fmt::format("{} has other {} than those that the model was trained with ({} there, {} "
                      "here); name the data of the training",
                      options_.data.string(), options_.clips == Clips::mnist ? "images" : "clips", checksum_,
                      files->checksum()));
    }
    files_ = std::move(files);
  }
  if (checksum_.empty()) checksum_ = files_->checksum();
  if (options_.clips == Clips::own && pieces_.empty()) cut_pieces();
}

void VideoTask::cut_pieces() const {
  const OwnClips& clips = files_->own();
  own_size_ = {clips.height, clips.width};
  const ClipDivision division = divide_clips(clips.lengths, options_.frames, options_.seed, options_.data);
  std::vector<std::int64_t> all;
  for (std::size_t set = 0; set < piece_counts_.size(); ++set) {
    const std::vector<std::int64_t>& first = division.first[set];
    piece_counts_[set] = std::ssize(first);
    all.insert(all.end(), first.begin(), first.end());
  }
  division_ = division.text;
  own_baseline_ = files_->loss_of_best_gray(division.first[0], options_.frames);
  Pieces& here = pieces_.emplace_back(Pieces{Device::cpu(), Tensor<std::int64_t>({std::ssize(all)})});
  std::ranges::copy(all, here.first.data());
}

TensorView<const std::int64_t> VideoTask::pieces_on(Device device, std::size_t set) const {
  auto found = std::ranges::find(pieces_, device, &Pieces::device);
  if (found == pieces_.end())
    found = pieces_.insert(pieces_.end(), Pieces{device, pieces_.front().first.copy(device)});
  const Index before =
      std::reduce(piece_counts_.begin(), piece_counts_.begin() + static_cast<std::ptrdiff_t>(set));
  return std::as_const(found->first).view().slice(before, piece_counts_[set]);
}

std::string VideoTask::left_out() const {
  if (options_.clips != Clips::own) return "";
  load();
  return division_;
}

std::vector<TaskPart> VideoTask::parts() const {
  if (options_.clips == Clips::squares) return {};
  if (checksum_.empty()) load();
  std::vector<TaskPart> parts = {{data_part::name, checksum_}};
  if (options_.clips == Clips::own)
    parts.push_back({frame_size_part, fmt::format("{} x {}", own_size_[0], own_size_[1])});
  return parts;
}

double VideoTask::baseline_loss() const {
  if (options_.clips == Clips::mnist) return loss_of_black_mnist;
  if (options_.clips == Clips::own) {
    load();
    return *own_baseline_;
  }
  // Shares of the frames in which the square covers a row; all phases are equally likely.
  const Index size = frame_size()[0], most = size - square_size;
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

Index VideoTask::held_out_clips(HeldOut set) const {
  const bool is_test = set == HeldOut::test;
  if (options_.clips != Clips::own) return is_test ? test_clips : validation_clips;
  load();
  return piece_counts_[is_test ? 2 : 1];
}

Index VideoTask::evaluation_batches(HeldOut set) const {
  return (held_out_clips(set) + options_.batch - 1) / options_.batch;
}

void VideoTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  const Index first = number * options_.batch;
  fill(&set, static_cast<std::uint64_t>(first), std::min(options_.batch, held_out_clips(set) - first), batch);
}

/// Clips of a set, or training clips where `set` is null.
void VideoTask::fill(const HeldOut* set, std::uint64_t first, Index count, Batch& batch) const {
  switch (options_.clips) {
    case Clips::squares:
      return fill(pointwise::SquareScene{frame_size()[0], square_size}, set, first, count, batch);
    case Clips::mnist:
      return fill_mnist(set, first, count, batch);
    case Clips::own: {
      load();
      const Files::Stored& stored = files_->on(batch.device());
      if (stored.bytes.empty()) {
        fill_own(stored.reals, set, first, count, batch);
      } else {
        fill_own(stored.bytes, set, first, count, batch);
      }
    }
  }
}

void VideoTask::fill_mnist(const HeldOut* set, std::uint64_t first, Index count, Batch& batch) const {
  load();
  const Files::Stored& images = files_->on(batch.device());
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
                             .frame_size = mnist_frame_size,
                             .most_speed = most_speed},
       set, first, count, batch);
}

template <class Gray>
void VideoTask::fill_own(TensorView<const Gray> grays, const HeldOut* set, std::uint64_t first, Index count,
                         Batch& batch) const {
  const std::size_t number = set == nullptr ? 0 : *set == HeldOut::validation ? 1 : 2;
  const TensorView<const std::int64_t> pieces = pieces_on(batch.device(), number);
  const auto [height, width] = frame_size();
  fill(pointwise::StoredScene<Gray>{.grays = grays.data(),
                                    .pieces = pieces.data(),
                                    .count = pieces.size(),
                                    .height = height,
                                    .width = width,
                                    .is_drawn = set == nullptr},
       set, first, count, batch);
}

template <class Scene>
void VideoTask::fill(const Scene& scene, const HeldOut* set, std::uint64_t first, Index count,
                     Batch& batch) const {
  const bool is_test = set != nullptr && *set == HeldOut::test;
  const Shape shape{length(), count, scene.rows() * scene.columns()};
  Tensor<float>& features = batch.reals(batch_names::features);
  Tensor<float>& values = batch.reals(batch_names::values);
  features.reserve(shape);
  values.reserve(shape);
  const SequenceStreams streams{.seed = is_test ? 0 : options_.seed,  // all seeds have the same test clips
                                .purpose = set == nullptr ? RandomPurpose::training : held_out_stream(*set),
                                .first = first};
  for_each_entry(batch.device(), scene.rows(), options_.frames * count,
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
  const Index frames = values.shape()[0] * values.shape()[1];
  const auto [height, width] = frame_size();
  if (!(row_sums_.device() == device)) row_sums_ = Tensor<double>(Shape{0}, device);
  row_sums_.reserve({frames, height, 3});
  for_each_entry(device, height, frames,
                 pointwise::FrameRowErrors{.outputs = outputs.data(),
                                           .values = values.data(),
                                           .sums = row_sums_.data(),
                                           .height = height,
                                           .width = width,
                                           .window = window});
  for_each(device, std::ssize(metrics()),
           pointwise::AddFrameMetrics{.sums = row_sums_.data(),
                                      .totals = sums.data(),
                                      .frames = frames,
                                      .height = height,
                                      .width = width,
                                      .window = window});
}

std::optional<SequenceInputs> VideoTask::own_inputs(const std::filesystem::path& place) const {
  if (!may_be_clips(place)) return std::nullopt;
  // The grays below are floats, and a model makes as many outputs of them.
  OwnClips clips = read_own_clips(place, 2 * sizeof(float));
  const auto [height, width] = frame_size();
  if (clips.height != height || clips.width != width) {
    throw FileError(fmt::format("{}: its frames have {} x {} pixels; this model reads {} x {}",
                                place.string(), clips.height, clips.width, height, width));
  }
  SequenceInputs found{.features = clips.grays(), .names = std::move(clips.names)};
  for (const Index length : clips.lengths) {
    if (length > std::numeric_limits<std::int32_t>::max())
      throw FileError(
          fmt::format("{}: a clip has {} frames; expected less than 2^31", place.string(), length));
    found.lengths.push_back(static_cast<std::int32_t>(length));
  }
  return found;
}

Tensor<float> VideoTask::own_features(ConstTensorView<float> features) const {
  for (const float x : features) {
    if (!is_gray(x)) throw ValueError(fmt::format("a pixel {}", no_gray(x)));
  }
  return Task::own_features(features);
}

std::unique_ptr<Task> VideoTask::with_length(Index length, Index batch) const {
  VideoOptions options = options_;
  options.frames = length + 1;
  options.batch = batch;
  auto task = std::make_unique<VideoTask>(options);
  task->checksum_ = checksum_;
  task->own_size_ = own_size_;
  task->files_ = files_;
  return task;
}

std::string VideoTask::config() const { return json_object(options_, "task").dump(); }

}  // namespace orthornn
