#pragma once
// Bodies that fill the batches of VideoTask and measure frames [H, W], gray from 0 to 1.

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

/// The features and values [T, B, H W] of bouncing squares. Entry (b, t) is frame t, 0 to T, of clip b.
struct SquaresBatch {
  SequenceStreams streams;
  Index frame_size, square_size;
  Index length, batch;  ///< T, B
  float* features;
  float* values;

  constexpr void operator()(Index b, Index t) const {
    const PhiloxStream stream = streams.stream(b);
    const Index most = frame_size - square_size;
    const auto place = [&](std::uint64_t axis) {
      return bouncing_place(integer_below(static_cast<std::uint32_t>(2 * most), stream.bits(axis)) + t, most);
    };
    const Index top = place(0), left = place(1), pixels = frame_size * frame_size;
    for (Index i = 0; i < pixels; ++i) {
      const Index y = i / frame_size - top, x = i % frame_size - left;
      const float gray = y >= 0 && y < square_size && x >= 0 && x < square_size ? 1.0F : 0.0F;
      if (t < length) features[(t * batch + b) * pixels + i] = gray;
      if (t > 0) values[((t - 1) * batch + b) * pixels + i] = gray;
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
