#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "core/back_end.hpp"
#include "cuda/layers/affine_map.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

/// Throws ValueError for a layer that reads no numbers, and for options outside their domains in T.
template <class T, class Options>
void check_options(const Options& options, Index input_size) {
  if (input_size < 1)
    throw ValueError(fmt::format("{}: {} inputs; expected at least 1", Options::name, input_size));
  check_fields<T>(Options::name, options);
}

/// Throws ValueError for symbols, in the name of a kind of layer that reads vectors alone.
template <class T>
void check_vectors(const char* kind, const SequenceInput<T>& input) {
  if (!input.vectors.empty()) return;
  throw ValueError(
      fmt::format("a {} layer was given symbols; it reads vectors: put an embedding, a linear or a recurrent "
                  "layer before it",
                  kind));
}

/// Throws ValueError for a length outside 0 .. `most`; on a GPU the next call that waits does.
inline void check_lengths(TensorView<const std::int32_t> lengths, Index most) {
  if (lengths.empty()) return;
  if constexpr (has_cuda_bodies) {
    if (lengths.device().is_cuda()) return cuda::check_lengths(lengths, most);
  }
  for (const std::int32_t live : lengths) {
    if (live < 0 || live > most) throw ValueError(fmt::format("length {}; expected 0 to {}", live, most));
  }
}

}  // namespace orthornn
