#pragma once
// Tiles of frames on a GPU, and how a block copies the pixels around one to its shared memory.

#include <cassert>
#include <type_traits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/pack.cuh"
#include "cuda/core/ptx.cuh"
#include "cuda/layers/frame_convolution.hpp"

namespace orthornn::cuda {

/// Pixels of a frame that a block works on: Rows x Columns, the first at (row, column).
template <int Rows, int Columns>
struct FrameTile {
  Index frame;
  int row, column;

  static Index count(const FrameMap& map) {
    return map.frames * ((map.height + Rows - 1) / Rows) * ((map.width + Columns - 1) / Columns);
  }
  __device__ FrameTile(Index number, int height, int width) {
    const int along = (width + Columns - 1) / Columns, of_frame = (height + Rows - 1) / Rows * along;
    frame = number / of_frame;
    const int rest = static_cast<int>(number % of_frame);
    row = rest / along * Rows;
    column = rest % along * Columns;
  }
};

/// Frames [frames, H, W, channels] in device memory. A frame has fewer than 2^31 numbers.
struct Frames {
  const float* data;
  int height, width, channels;
  /// Whether the channels of a pixel are whole words that are aligned. Those are copied asynchronously.
  bool wide;

  Frames(const float* frames, const FrameMap& map, Index count)
      : data(frames),
        height(static_cast<int>(map.height)),
        width(static_cast<int>(map.width)),
        channels(static_cast<int>(count)),
        wide(count % 4 == 0 && is_aligned_for<4>(frames)) {}

  /// Copies `count` channels from `first` on of Rows x Columns pixels, the first at (row, column), to shared
  /// memory [Rows Columns, stride]. Pixels outside the frame and channels that are not there are zeros. All
  /// threads of the block take part. The copies are theirs to wait for, as a group of cp.async.
  template <int Rows, int Columns, int count, int stride, int threads>
  __device__ __forceinline__ void copy(Index frame, int row, int column, int first, float* shared) const {
    const float* const begin = data + frame * height * width * channels + first;
    const auto copy_words = [&](auto size) {
      constexpr int words = count / size;
      static_assert(threads % words == 0);  // so that a thread has the same channels of all its pixels
      const int thread = static_cast<int>(threadIdx.x), c = thread % words * size;
      float* to = shared + thread / words * stride + c;
      // A few places are remembered from call to call. More of them would take too many registers.
      [[maybe_unused]] constexpr int turns = (Rows * Columns * words + threads - 1) / threads;
#pragma unroll(turns <= 3 ? turns : 1)
      for (int place = thread / words; place < Rows * Columns; place += threads / words) {
        const int y = row + place / Columns, x = column + place % Columns;
        const bool is_there = static_cast<unsigned>(y) < static_cast<unsigned>(height) &&
                              static_cast<unsigned>(x) < static_cast<unsigned>(width) && first + c < channels;
        const float* const from = is_there ? begin + (y * width + x) * channels + c : data;
        if constexpr (size == 4) {
          ptx::cp_async_or_zero(to, from, is_there);
        } else {
          *to = is_there ? *from : 0.0f;
        }
        to += threads / words * stride;
      }
    };
    if constexpr (count % 4 == 0) {
      if (wide) return copy_words(std::integral_constant<int, 4>());
    }
    copy_words(std::integral_constant<int, 1>());
  }
};

/// Calls body(side, exact) with constants.
void with_constants(const FrameMap& map, const auto& body) {
  const auto with_side = [&](auto exact) {
    if (map.side == 3) return body(std::integral_constant<int, 3>(), exact);
    assert(map.side == 5);
    body(std::integral_constant<int, 5>(), exact);
  };
  map.exact ? with_side(std::true_type()) : with_side(std::false_type());
}

/// Channels side by side in a product of tensor cores, and the threads of a warp that have a row of one.
inline constexpr int octet = 8, quad = 4;

/// Calls body(constant) with how many octets of outputs a block has: 1, 2 or 4.
void with_octets(int outputs, const auto& body) {
  if (outputs <= octet) return body(std::integral_constant<int, 1>());
  if (outputs <= 2 * octet) return body(std::integral_constant<int, 2>());
  body(std::integral_constant<int, 4>());
}

}  // namespace orthornn::cuda
