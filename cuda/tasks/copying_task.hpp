#pragma once

#include "orthornn/core/tensor.hpp"
#include "orthornn/scalar/philox.hpp"

namespace orthornn::cuda {

/// What CopyingTask writes into the symbols and classes [T, B] of a batch, from draws of the stream.
struct CopyingBatch {
  PhiloxStream stream;
  Index string_length;
  Index delay;
  std::int32_t data_symbols;
  std::int32_t blank;
  std::int32_t marker;
};
void fill_batch(const CopyingBatch& task, TensorView<std::int32_t> symbols, TensorView<std::int32_t> classes);

}  // namespace orthornn::cuda
