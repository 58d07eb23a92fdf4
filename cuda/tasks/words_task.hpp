#pragma once

#include "orthornn/core/tensor.hpp"
#include "orthornn/scalar/sequence_streams.hpp"

namespace orthornn::cuda {

/// What WordsTask writes into the symbols and classes [T, B] of a batch, from its streams. `products`
/// [symbols, elements] has x o y.
void fill_words_batch(const SequenceStreams& streams, TensorView<const std::int32_t> products,
                      TensorView<std::int32_t> symbols, TensorView<std::int32_t> classes);

}  // namespace orthornn::cuda
