#pragma once
// Bodies that fill a task's batches of B sequences of T steps from random streams and data.

#include <array>
#include <cstdint>

#include "orthornn/core/shape.hpp"
#include "orthornn/scalar/philox.hpp"
#include "orthornn/scalar/sequence_streams.hpp"

namespace orthornn::pointwise {

/// The symbols and classes [T, B] of CopyingTask. Symbol s of sequence b is draw s B + b.
struct CopyingBatch {
  PhiloxStream stream;
  Index string_length, delay;
  std::int32_t data_symbols, blank, marker;
  Index batch;  ///< B
  std::int32_t* symbols;
  std::int32_t* classes;

  constexpr std::int32_t symbol(Index s, Index b) const {
    const std::uint32_t bits = stream.bits(static_cast<std::uint64_t>(s * batch + b));
    return static_cast<std::int32_t>(integer_below(static_cast<std::uint32_t>(data_symbols), bits));
  }
  constexpr void operator()(Index b, Index t) const {
    const Index answer = string_length + delay;
    const bool asks = t == answer - 1;
    symbols[t * batch + b] = t < string_length ? symbol(t, b) : asks ? marker : blank;
    classes[t * batch + b] = t >= answer ? symbol(t - answer, b) : blank;
  }
};

/// The features [T, B, 1] of MnistTask, pixels [images, T] over 255, and its classes [B], their labels
/// [images].
struct MnistBatch {
  const std::uint8_t* pixels;
  const std::uint8_t* labels;
  const std::int32_t* order;  ///< Numbers of the images, or null: image b is number `first + b`.
  Index first;
  const std::int32_t* input_order;  ///< Pixels of the positions [T], or null: position t shows pixel t.
  Index length, batch;              ///< T, B
  float* features;
  std::int32_t* classes;

  constexpr void operator()(Index b, Index t) const {
    const Index image = order != nullptr ? order[first + b] : first + b;
    const Index pixel = input_order != nullptr ? input_order[t] : t;
    features[t * batch + b] = static_cast<float>(pixels[image * length + pixel]) / 255.0F;
    if (t == 0) classes[b] = labels[image];
  }
};

/// The symbols and classes [T, B] of sequence b of WordsTask. Each product needs the one before. `products`
/// [symbols, elements] has x o y. Symbol t is draw t of the sequence's stream, and four draws are a block of
/// Philox.
struct WordsBatch {
  SequenceStreams streams;
  const std::int32_t* products;
  Index alphabet, elements;
  Index length, batch;  ///< T, B
  std::int32_t* symbols;
  std::int32_t* classes;

  constexpr void operator()(Index b) const {
    const PhiloxStream stream = streams.stream(b);
    std::int32_t y = 0;  // the identity
    for (Index start = 0; start < length; start += 4) {
      const std::array<std::uint32_t, 4> bits = stream.block(static_cast<std::uint64_t>(start / 4));
      for (Index t = start; t < length && t < start + 4; ++t) {
        const std::uint32_t x =
            integer_below(static_cast<std::uint32_t>(alphabet), bits[static_cast<std::size_t>(t - start)]);
        y = products[x * elements + y];
        symbols[t * batch + b] = static_cast<std::int32_t>(x);
        classes[t * batch + b] = y;
      }
    }
  }
};

}  // namespace orthornn::pointwise
