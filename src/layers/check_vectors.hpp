#pragma once

#include <fmt/format.h>

#include "orthornn/core/error.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

/// Throws ValueError for symbols, in the name of a kind of layer that reads vectors alone.
template <class T>
void check_vectors(const char* kind, const SequenceInput<T>& input) {
  if (!input.vectors.empty()) return;
  throw ValueError(
      fmt::format("a {} layer was given symbols; it reads vectors: put an embedding, a linear or a recurrent "
                  "layer before it",
                  kind));
}

}  // namespace orthornn
