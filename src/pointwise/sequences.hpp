#pragma once
// Bodies over steps and sequences. Tensors are in C order. A column is a step t of a sequence b, number t B +
// b.

#include "pointwise/numbers.hpp"

namespace orthornn::pointwise {

/// to [B, N] += from [B, N] for sequences of length 0.
template <class T>
struct AddWhereEmpty {
  const std::int32_t* lengths;
  const T* from;
  T* to;
  Index size;  ///< N

  constexpr void operator()(Index n, Index b) const {
    if (lengths[b] == 0) to[b * size + n] += from[b * size + n];
  }
};

/// to <- (or +=) from, matrices of one column for each step and sequence. `reversed`: step t of the live
/// steps is the last but t of the other.
template <class U>
struct CopySteps {
  const U* from;
  Index from_stride;
  U* to;
  Index to_stride;
  const std::int32_t* lengths;
  Index length, batch;
  bool reversed, adds;

  constexpr void operator()(Index row, Index column) const {
    Index source = column;
    if (reversed) {
      const Index t = column / batch, b = column - t * batch;
      // A length above T is a fault that is reported elsewhere; nothing outside the sequence is read.
      const Index stated = live_steps(lengths, length, b), live = stated > length ? length : stated;
      if (t < live) source = (live - 1 - t) * batch + b;
    }
    const U x = from[source * from_stride + row];
    U& y = to[column * to_stride + row];
    y = adds ? y + x : x;
  }
};

/// to [L, R, N] <- from [L, B, N]: sequence r of `to` is sequence rows[r] of `from`.
template <class U>
struct GatherSequences {
  const U* from;
  const std::int32_t* rows;
  U* to;
  Index batch, count, size;  ///< B, R, N

  constexpr void operator()(Index n, Index column) const {
    const Index l = column / count, r = column - l * count;
    to[column * size + n] = from[(l * batch + rows[r]) * size + n];
  }
};

/// to [B, N] <- the outputs [T, B, N] at the last live step of each sequence; 0 for one without a step.
template <class T>
struct GatherLast {
  const T* outputs;
  const std::int32_t* lengths;
  T* to;
  Index length, batch, size;  ///< T, B, N

  constexpr void operator()(Index n, Index b) const {
    const Index step = live_steps(lengths, length, b) - 1;
    to[b * size + n] = step < 0 || step >= length ? T{0} : outputs[(step * batch + b) * size + n];
  }
};

/// to [T, B, N] <- from [B, N] at the last live step of each sequence, 0 elsewhere.
template <class T>
struct ScatterLast {
  const T* from;
  const std::int32_t* lengths;
  T* to;
  Index length, batch, size;  ///< T, B, N

  constexpr void operator()(Index n, Index column) const {
    const Index t = column / batch, b = column - t * batch;
    to[column * size + n] = t == live_steps(lengths, length, b) - 1 ? from[b * size + n] : T{0};
  }
};

/// to [T, B] <- the classes [T, B], and -1 beyond each sequence's length.
struct CopyLiveClasses {
  const std::int32_t* classes;
  const std::int32_t* lengths;
  std::int32_t* to;
  Index length, batch;  ///< T, B

  constexpr void operator()(Index b, Index t) const {
    to[t * batch + b] = t < live_steps(lengths, length, b) ? classes[t * batch + b] : -1;
  }
};

/// x [T, B, K] <- features, with zeros beyond each sequence's length.
template <class T>
struct CopyFeatures {
  const float* features;
  const std::int32_t* lengths;
  T* x;
  Index length, batch, size;  ///< T, B, K

  constexpr void operator()(Index k, Index column) const {
    const Index t = column / batch, b = column - t * batch, i = column * size + k;
    x[i] = t < live_steps(lengths, length, b) ? static_cast<T>(features[i]) : T{0};
  }
};

/// Every row of rows [.., N] <- vector [N].
template <class T>
struct CopyToRows {
  const T* vector;
  T* rows;
  Index size;  ///< N

  constexpr void operator()(Index n, Index row) const { rows[row * size + n] = vector[n]; }
};

/// to [B, P] <- from [B], P times each.
struct RepeatLengths {
  const std::int32_t* from;
  std::int32_t* to;
  Index count;  ///< P

  constexpr void operator()(Index p, Index b) const { to[b * count + p] = from[b]; }
};

/// after [B] <- before + the live steps.
template <class T>
struct CountSteps {
  const T* before;
  const std::int32_t* lengths;
  T* after;
  Index length;  ///< T

  constexpr void operator()(Index b) const {
    after[b] = before[b] + static_cast<T>(live_steps(lengths, length, b));
  }
};

/// The first C numbers of the W - 1 steps before a sequence in rows [W - 1 + T, B, M] <- from [B, W - 1, C],
/// or 0 where that is null.
template <class T>
struct LoadHistory {
  const T* from;
  T* rows;
  Index before, batch, channels, width;  ///< W - 1, B, C, M

  constexpr void operator()(Index c, Index row) const {
    const Index s = row / batch, b = row - s * batch;
    rows[row * width + c] = from == nullptr ? T{0} : from[(b * before + s) * channels + c];
  }
};

/// to [B, W - 1, C] <- the first C numbers of the last W - 1 live steps of rows [W - 1 + T, B, M].
template <class T>
struct SaveHistory {
  const T* rows;
  const std::int32_t* lengths;
  T* to;
  Index length, before, batch, channels, width;  ///< T, W - 1, B, C, M

  constexpr void operator()(Index c, Index i) const {
    const Index b = i / before, s = i - b * before, stated = live_steps(lengths, length, b);
    // A wrong length is a fault that is reported elsewhere; nothing outside the sequence is read.
    const Index live = stated < 0 ? 0 : stated > length ? length : stated;
    to[i * channels + c] = rows[((live + s) * batch + b) * width + c];
  }
};

}  // namespace orthornn::pointwise
