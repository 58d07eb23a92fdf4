#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// The most outputs C of a map whose gradients `map_to_few_backward` has.
inline constexpr Index most_outputs = 16;

/// Whether `map_to_few_backward` takes a map of vectors of N numbers to C numbers, for so many vectors.
/// Others are products of matrices. Fewer vectors are a small product, which starts no second kernel. Of
/// fewer inputs than a warp has threads, some threads have none.
constexpr bool has_few_outputs(Index input_size, Index output_size, Index vectors) {
  constexpr Index fewest_vectors = 2048, fewest_inputs = 32, most_inputs = 4096;
  return output_size <= most_outputs && input_size >= fewest_inputs && input_size <= most_inputs &&
         vectors >= fewest_vectors;
}

/// The gradients of a map y [.., C] = W x + b with weights W [C, N], bias b [C] and vectors x [.., N].
struct FewOutputsGradients {
  TensorView<float> weights;       ///< [C, N], overwritten
  TensorView<float> bias = {};     ///< [C], overwritten, or empty
  TensorView<float> vectors = {};  ///< [.., N], or empty
  bool adds_to_vectors = false;    ///< what `vectors` has stays, and the gradient is added
};

/// From the gradients g [.., C] of the outputs. Reads the vectors once, and multiplies in float whatever the
/// precision.
void map_to_few_backward(TensorView<const float> weights, TensorView<const float> vectors,
                         TensorView<const float> g, const FewOutputsGradients& to);

}  // namespace orthornn::cuda
