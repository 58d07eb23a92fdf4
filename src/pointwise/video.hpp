#pragma once
// Bodies that fill the batches of VideoTask and measure frames [H, W], gray from 0 to 1.

#include <array>
#include <cmath>
#include <cstdint>

#include "orthornn/core/shape.hpp"
#include "orthornn/scalar/philox.hpp"
#include "orthornn/scalar/sequence_streams.hpp"

namespace orthornn::pointwise {

/// Place from 0 to `most` of what goes to and fro between them, by one for each unit of the phase. Phases 0
/// to 2 most - 1 are all places and directions.
constexpr Index bouncing_place(Index phase, Index most) {
  const Index within = phase % (2 * most);
  return within <= most ? within : 2 * most - within;
}

/// A square of white pixels, which moves by one pixel along each axis at each frame.
struct SquareScene {
  Index frame_size, square_size;

  struct Clip {
    Index top, left;  ///< Phases
  };
  constexpr Index rows() const { return frame_size; }
  constexpr Index columns() const { return frame_size; }
  constexpr Clip clip(const PhiloxStream& stream, Index /*number*/) const {
    const auto phases = static_cast<std::uint32_t>(2 * (frame_size - square_size));
    return {integer_below(phases, stream.bits(0)), integer_below(phases, stream.bits(1))};
  }
  constexpr float gray(const Clip& clip, Index t, Index y, Index x) const {
    const Index most = frame_size - square_size, row = y - bouncing_place(clip.top + t, most),
                column = x - bouncing_place(clip.left + t, most);
    return row >= 0 && row < square_size && column >= 0 && column < square_size ? 1.0F : 0.0F;
  }
};

/// Two images, each with its own speed along each axis. Where they overlap, the brighter one is seen.
struct ImageScene {
  const std::uint8_t* images;  ///< [count, height, width]
  Index count, height, width;
  Index frame_size;
  std::uint32_t most_speed;  ///< Pixels a frame.

  static constexpr Index movers = 2;
  struct Axis {
    Index phase, speed;
  };
  struct Clip {
    std::array<Index, movers> image;
    std::array<Axis, movers> top, left;
  };
  constexpr Index rows() const { return frame_size; }
  constexpr Index columns() const { return frame_size; }
  constexpr Clip clip(const PhiloxStream& stream, Index /*number*/) const {
    std::uint64_t draws = 0;
    const auto below = [&](Index count_of) {
      return static_cast<Index>(integer_below(static_cast<std::uint32_t>(count_of), stream.bits(draws++)));
    };
    const auto axis = [&](Index size) {
      const Index phase = below(2 * (frame_size - size));
      return Axis{phase, 1 + below(most_speed)};
    };
    Clip found{};
    for (std::size_t i = 0; i < movers; ++i) {
      found.image[i] = below(count);
      found.top[i] = axis(height);
      found.left[i] = axis(width);
    }
    return found;
  }
  constexpr float gray(const Clip& clip, Index t, Index y, Index x) const {
    const auto offset = [&](const Axis& axis, Index place, Index size) {
      return place - bouncing_place(axis.phase + axis.speed * t, frame_size - size);
    };
    std::uint8_t brightest = 0;
    for (std::size_t i = 0; i < movers; ++i) {
      const Index row = offset(clip.top[i], y, height), column = offset(clip.left[i], x, width);
      if (row < 0 || row >= height || column < 0 || column >= width) continue;
      const std::uint8_t byte = images[(clip.image[i] * height + row) * width + column];
      if (byte > brightest) brightest = byte;
    }
    return static_cast<float>(brightest) / 255.0F;
  }
};

/// Pieces of videos in memory.
template <class Gray>
struct StoredScene {
  const Gray* grays;           ///< [frames, height, width]: bytes, or numbers from 0 to 1.
  const std::int64_t* pieces;  ///< First frame of each piece, [count].
  Index count, height, width;
  bool is_drawn;  ///< Whether a clip is any piece; otherwise it is the piece of its number.

  struct Clip {
    Index first;
  };
  constexpr Index rows() const { return height; }
  constexpr Index columns() const { return width; }
  constexpr Clip clip(const PhiloxStream& stream, Index number) const {
    return {
        pieces[is_drawn ? static_cast<Index>(integer_below(static_cast<std::uint32_t>(count), stream.bits(0)))
                        : number]};
  }
  constexpr float gray(const Clip& clip, Index t, Index y, Index x) const {
    const Gray found = grays[((clip.first + t) * height + y) * width + x];
    if constexpr (sizeof(Gray) == 1) {
      return static_cast<float>(found) / 255.0F;
    } else {
      return found;
    }
  }
};

/// The features and values [T, B, H W] of clips. Entry (y, t B + b) is row y of frame t, 0 to T, of clip b.
template <class Scene>
struct ClipBatch {
  Scene scene;
  SequenceStreams streams;
  Index length, batch;  ///< T, B
  float* features;
  float* values;

  constexpr void operator()(Index y, Index column) const {
    const Index t = column / batch, b = column - t * batch, height = scene.rows(), width = scene.columns();
    const auto clip = scene.clip(streams.stream(b), static_cast<Index>(streams.first) + b);
    for (Index x = 0; x < width; ++x) {
      const float gray = scene.gray(clip, t, y, x);
      const Index place = (column * height + y) * width + x;
      if (t < length) features[place] = gray;
      if (t > 0) values[place - batch * height * width] = gray;
    }
  }
};

/// Of row y of a frame: the sums of squared errors, of absolute errors, and of the structural similarities of
/// the windows whose first row it is, to sums [frames, H, 3].
struct FrameRowErrors {
  const float* outputs;  ///< [frames, H, W]
  const float* values;   ///< [frames, H, W]
  double* sums;
  Index height, width;
  Index window;  ///< Rows and columns of a window.

  constexpr void operator()(Index y, Index frame) const {
    double squared = 0, absolute = 0, similarity = 0;
    for (Index x = 0; x < width; ++x) {
      const double error = pixel(outputs, frame, y, x) - pixel(values, frame, y, x);
      squared += error * error;
      absolute += std::fabs(error);
      if (y + window <= height && x + window <= width) similarity += similarity_at(frame, y, x);
    }
    double* to = sums + (frame * height + y) * 3;
    to[0] = squared;
    to[1] = absolute;
    to[2] = similarity;
  }

 private:
  constexpr double pixel(const float* frames, Index frame, Index y, Index x) const {
    return static_cast<double>(frames[(frame * height + y) * width + x]);
  }
  constexpr double similarity_at(Index frame, Index top, Index left) const {
    double a = 0, b = 0, aa = 0, bb = 0, ab = 0;
    for (Index y = top; y < top + window; ++y) {
      for (Index x = left; x < left + window; ++x) {
        const double of_a = pixel(outputs, frame, y, x), of_b = pixel(values, frame, y, x);
        a += of_a;
        b += of_b;
        aa += of_a * of_a;
        bb += of_b * of_b;
        ab += of_a * of_b;
      }
    }
    constexpr double c1 = 0.01 * 0.01, c2 = 0.03 * 0.03;  // of Wang et al., for a range of 1
    const auto n = static_cast<double>(window * window);
    const double mean_a = a / n, mean_b = b / n, variances = (aa + bb - a * mean_a - b * mean_b) / (n - 1),
                 covariance = (ab - a * mean_b) / (n - 1);
    return (2 * mean_a * mean_b + c1) * (2 * covariance + c2) /
           ((mean_a * mean_a + mean_b * mean_b + c1) * (variances + c2));
  }
};

/// Adds metric i of all frames, MSE, MAE, SSIM and PSNR, and their number to totals [4, 2].
struct AddFrameMetrics {
  const double* sums;  ///< [frames, H, 3], as FrameRowErrors leaves them.
  double* totals;
  Index frames, height, width, window;

  constexpr void operator()(Index i) const {
    const auto pixels = static_cast<double>(height * width);
    const auto windows = static_cast<double>((height - window + 1) * (width - window + 1));
    double total = 0;
    for (Index frame = 0; frame < frames; ++frame) {
      const Index column = i == 3 ? 0 : i;
      double sum = 0;
      for (Index y = 0; y < height; ++y) sum += sums[(frame * height + y) * 3 + column];
      const double mean = sum / (i == 2 ? windows : pixels);
      constexpr double least = 1e-10;  // at which PSNR is 100
      total += i == 3 ? -10 * std::log10(mean < least ? least : mean) : mean;
    }
    totals[2 * i] += total;
    totals[2 * i + 1] += static_cast<double>(frames);
  }
};

}  // namespace orthornn::pointwise
