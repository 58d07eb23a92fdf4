#pragma once
// Bodies over frames [B, H, W, C] in C order. A pixel is a place of a frame, number (b H + y) W + x.

#include "orthornn/scalar/activation.hpp"
#include "pointwise/numbers.hpp"

namespace orthornn::pointwise {

/// A pixel, and those that lie within `reach` rows and columns around it. They have the offsets 0 to
/// (2 reach + 1)^2 - 1, row by row.
struct Neighbourhood {
  Index height, width, reach;

  constexpr Index side() const { return 2 * reach + 1; }
  constexpr Index offsets() const { return side() * side(); }
  /// Calls body(offset, number) for all neighbours of a pixel; number -1 outside the frame.
  constexpr void for_each(Index pixel, const auto& body) const {
    const Index x = pixel % width, y = pixel / width % height;
    Index offset = 0;
    for (Index dy = -reach; dy <= reach; ++dy) {
      const bool in_rows = y + dy >= 0 && y + dy < height;
      for (Index dx = -reach; dx <= reach; ++dx, ++offset) {
        const bool is_inside = in_rows && x + dx >= 0 && x + dx < width;
        body(offset, is_inside ? pixel + dy * width + dx : Index{-1});
      }
    }
  }
};

/// columns [pixels, offsets, C] <- the neighbours of each pixel, 0 outside its frame. On GPUs alone: the CPU
/// reads frames as they lie.
template <class T>
struct GatherNeighbours {
  Neighbourhood around;
  const T* frames;
  T* columns;
  Index channels;  ///< C

  constexpr void operator()(Index c, Index pixel) const {
    T* const to = columns + pixel * around.offsets() * channels + c;
    around.for_each(pixel, [&](Index offset, Index from) {
      to[offset * channels] = from < 0 ? T{0} : frames[from * channels + c];
    });
  }
};

/// frames += the numbers of columns [pixels, offsets, C], each at its neighbour: the transpose of
/// GatherNeighbours. A pixel is at the mirrored offset of its neighbour.
template <class T>
struct AddNeighbours {
  Neighbourhood around;
  const T* columns;
  T* frames;
  Index channels;  ///< C

  constexpr void operator()(Index c, Index pixel) const {
    T sum = frames[pixel * channels + c];
    around.for_each(pixel, [&](Index offset, Index from) {
      if (from >= 0) sum += columns[((from + 1) * around.offsets() - 1 - offset) * channels + c];
    });
    frames[pixel * channels + c] = sum;
  }
};

/// A step of h_t = relu(a_t) for B sequences of N numbers.
template <class T>
struct ReluStep {
  Index length, step, size;     ///< T, t, N
  const std::int32_t* lengths;  ///< [B], or null
  T* h;                         ///< [B, N], a_t -> h_t, which is 0 beyond a sequence's length
  T* last;                      ///< [B, N], or null: gets the state after the last live step

  /// The step of one sequence.
  struct OfSequence {
    bool is_live;
    T* last;  ///< [N], or null: gets the state

    /// A number of h_t, for that of a_t.
    constexpr T operator()(T a) const { return is_live ? activate(Activation::relu, a, T{0}) : T{0}; }
  };
  constexpr OfSequence of(Index b) const {
    const Index live = live_steps(lengths, length, b);
    return {step < live, step + 1 == live && last != nullptr ? last + b * size : nullptr};
  }
  constexpr void operator()(Index n, Index b) const {
    const OfSequence of_sequence = of(b);
    T& number = h[b * size + n];
    number = of_sequence(number);
    if (of_sequence.last != nullptr) of_sequence.last[n] = number;
  }
};

/// The gradient of that step.
template <class T>
struct ReluStepBackward {
  Index length, step, size;     ///< T, t, N
  const std::int32_t* lengths;  ///< [B], or null
  const T* h;                   ///< [B, N]
  const T* d_last;              ///< [B, N], or null: the gradient that arrives at the last state
  T* d;                         ///< [B, N], the gradient that arrives at h_t -> that of a_t

  /// The gradient of the step of one sequence.
  struct OfSequence {
    bool is_live;
    const T* d_last;  ///< [N], or null: arrives at h_t too

    /// A number of the gradient of a_t, for that of h_t and of the gradient that arrives at it.
    constexpr T operator()(T h_t, T d_h) const {
      return is_live ? differentiate(Activation::relu, h_t, std::int8_t{0}, d_h) : T{0};
    }
  };
  constexpr OfSequence of(Index b) const {
    const Index live = live_steps(lengths, length, b);
    return {step < live, step + 1 == live && d_last != nullptr ? d_last + b * size : nullptr};
  }
  constexpr void operator()(Index n, Index b) const {
    const OfSequence of_sequence = of(b);
    T& number = d[b * size + n];
    const T arrives = of_sequence.d_last == nullptr ? number : number + of_sequence.d_last[n];
    number = of_sequence(h[b * size + n], arrives);
  }
};

}  // namespace orthornn::pointwise
