#include "tasks/video/video_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/quantity.hpp"
#include "orthornn/core/error.hpp"
#include "tasks/mnist/mnist_images.hpp"
#include "tasks/sequences/loaded_sequences.hpp"

namespace orthornn {
namespace {

constexpr std::array set_names = {"training", "validation", "test"};

/// Frames that lie one after the other, of one set.
struct ClipPart {
  Index first, frames;
  std::size_t set;
};

/// Each clip, of the set that the seed draws.
std::vector<ClipPart> drawn_clips(const std::vector<Index>& lengths, std::uint64_t seed) {
  const std::vector<std::int32_t> sets =
      drawn_parts(std::ssize(lengths), {}, DataTaskOptions{.seed = seed}, true, true);
  std::vector<ClipPart> parts;
  Index first = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    parts.push_back({first, lengths[i], static_cast<std::size_t>(sets[i])});
    first += lengths[i];
  }
  return parts;
}

/// Each clip in three, in time.
std::vector<ClipPart> parts_in_time(const std::vector<Index>& lengths) {
  std::vector<ClipPart> parts;
  Index first = 0;
  for (const Index length : lengths) {
    const Index held_out = length / 10;
    parts.push_back({first, length - 2 * held_out, 0});
    parts.push_back({first + length - 2 * held_out, held_out, 1});
    parts.push_back({first + length - held_out, held_out, 2});
    first += length;
  }
  return parts;
}

/// Adds how often each gray occurs.
template <class Gray>
void count_grays(const Gray* grays, Index count, std::array<double, 256>& counts) {
  for (Index i = 0; i < count; ++i) {
    if constexpr (sizeof(Gray) == 1) {
      ++counts[grays[i]];
    } else {
      ++counts[static_cast<std::size_t>(std::lround(grays[i] * 255))];
    }
  }
}

}  // namespace

VideoTask::Files::Files(const VideoOptions& options) {
  if (options.clips == Clips::mnist) read_mnist(options);
  if (options.clips == Clips::own) read_own(options);
}

void VideoTask::Files::read_mnist(const VideoOptions& options) {
  constexpr Index frame_size = 64;
  Stored& here = stored_.emplace_back();
  Tensor<std::uint8_t> labels, test_labels;
  read_mnist_images(VideoOptions::name, options.data, "train", here.training, labels);
  read_mnist_images(VideoOptions::name, options.data, "t10k", here.test, test_labels);
  if (here.training.shape()[0] < 2) {
    throw FileError(
        fmt::format("{} has one training image; expected another one for validation", options.data.string()));
  }
  for (const Tensor<std::uint8_t>* images : {&here.training, &here.test}) {
    const Shape& shape = images->shape();
    if (shape[1] >= frame_size || shape[2] >= frame_size) {
      throw FileError(fmt::format("{}: images have {} x {} pixels; expected fewer than the {} of a frame",
                                  options.data.string(), shape[1], shape[2], frame_size));
    }
  }
  checksum_ = mnist_checksum(here.training, labels, here.test, test_labels);
}

void VideoTask::Files::read_own(const VideoOptions& options) {
  own_ = read_own_clips(options.data);
  checksum_ = own_.checksum();
  Stored& here = stored_.emplace_back();
  here.bytes = {own_.bytes.data(), Shape{std::ssize(own_.bytes)}};
  here.reals = {own_.reals.data(), Shape{std::ssize(own_.reals)}};
}

const VideoTask::Files::Stored& VideoTask::Files::on(Device device) {
  const auto found = std::ranges::find(stored_, device, &Stored::device);
  if (found != stored_.end()) return *found;
  const Stored& here = stored_.front();
  Stored& there = stored_.emplace_back(Stored{.device = device});
  there.training = here.training.copy(device);
  there.test = here.test.copy(device);
  there.copied_bytes = Tensor<std::uint8_t>(here.bytes.shape(), device);
  copy<std::uint8_t>(here.bytes, there.copied_bytes.view());
  there.copied_reals = Tensor<float>(here.reals.shape(), device);
  copy<float>(here.reals, there.copied_reals.view());
  there.bytes = there.copied_bytes.view();
  there.reals = there.copied_reals.view();
  return there;
}

double VideoTask::Files::loss_of_best_gray(const std::vector<std::int64_t>& first, Index count) const {
  std::array<double, 256> counts{};
  const Index pixels = own_.height * own_.width;
  for (const std::int64_t piece : first) {
    if (own_.bytes.empty()) {
      count_grays(own_.reals.data() + piece * pixels, count * pixels, counts);
    } else {
      count_grays(own_.bytes.data() + piece * pixels, count * pixels, counts);
    }
  }
  double best = std::numeric_limits<double>::infinity();
  for (int gray = 0; gray < 256; ++gray) {
    double loss = 0;
    for (int other = 0; other < 256; ++other) {
      const double error = std::abs(gray - other) / 255.0;
      loss += counts[static_cast<std::size_t>(other)] * (error + error * error);
    }
    best = std::min(best, loss);
  }
  return best / static_cast<double>(std::ssize(first) * count * pixels);
}

ClipDivision divide_clips(const std::vector<Index>& lengths, Index frames, std::uint64_t seed,
                          const std::filesystem::path& data) {
  const bool in_time = lengths.size() < 3;
  const std::vector<ClipPart> parts = in_time ? parts_in_time(lengths) : drawn_clips(lengths, seed);
  ClipDivision division;
  std::array<Index, 3> clips{}, longest{};
  Index left = 0;
  for (const ClipPart& part : parts) {
    ++clips[part.set];
    longest[part.set] = std::max(longest[part.set], part.frames);
    for (Index i = 0; i + frames <= part.frames; i += frames)
      division.first[part.set].push_back(part.first + i);
    left += part.frames % frames;
  }
  const auto clips_text = [&](std::size_t set) {
    return fmt::format("{} of {} for {}", quantity(std::ssize(division.first[set]), "piece"),
                       quantity(clips[set], in_time ? "part" : "clip"), set_names[set]);
  };
  for (std::size_t set = 0; set < division.first.size(); ++set) {
    if (!division.first[set].empty()) continue;
    throw FileError(
        fmt::format("{}: no {} of its {} data has the {} frames of a piece, the longest has {}; "
                    "expected longer clips, more of them, or fewer --frames",
                    data.string(), in_time ? "part in time" : "clip", set_names[set], frames, longest[set]));
  }
  const auto are = [](Index count) { return count == 1 ? "is" : "are"; };
  const Index all = std::ssize(lengths);
  division.text =
      fmt::format("{} {} divided {}, in pieces of {}: {}, {}, {}; {} {} left out", quantity(all, "clip"),
                  are(all), in_time ? "in time" : fmt::format("by seed {}", seed), quantity(frames, "frame"),
                  clips_text(0), clips_text(1), clips_text(2), quantity(left, "frame"), are(left));
  return division;
}

}  // namespace orthornn
