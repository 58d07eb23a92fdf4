#pragma once

#include <vector>

#include "orthornn/core/random.hpp"
#include "orthornn/layers/layer_options.hpp"

namespace orthornn::testing {

namespace detail {

inline LayerOptions draw_layer(RandomStream& random, Index input_size, int depth);

/// One to three layers; with `same_size` the last returns as many numbers as the first reads.
inline std::vector<LayerOptions> draw_layers(RandomStream& random, Index input_size, int depth,
                                             bool same_size) {
  std::vector<LayerOptions> layers;
  Index size = input_size;
  const std::uint32_t count = 1 + random.integer(3);
  for (std::uint32_t i = 0; i < count; ++i) {
    layers.push_back(draw_layer(random, size, depth));
    size = output_size_of(layers.back(), size);
  }
  if (same_size && size != input_size) layers.emplace_back(Linear{input_size});
  return layers;
}

inline LayerOptions draw_layer(RandomStream& random, Index input_size, int depth) {
  const Index size = 1 + static_cast<Index>(random.integer(4));
  switch (random.integer(depth > 1 ? 15 : 11)) {
    case 0:
      return OrthogonalCell{.hidden_size = size,
                            .transition = Cwy{.reflections = (size + 1) / 2},
                            .activation = Activation::tanh,
                            .learn_initial_state = true};
    case 1:
      return Lstm{size};
    case 2:
      return Gru{size};
    case 3:
      return Linear{size};
    case 4:
      return RmsNorm{.epsilon = 0.5};
    case 5:
      return Dropout{.rate = 0.25};
    case 6:
      // Of short keys some are nearly 0, and the derivatives of their directions large.
      return DeltaProductCell{.hidden_size = size,
                              .heads = 1,
                              .key_size = 6,
                              .value_size = 1,
                              .householder = 1,
                              .convolution = static_cast<Index>(random.integer(3)),
                              .norm_epsilon = 0.5};
    case 7:
      return GatedMlp{.mlp_size = size};
    case 8:
      return ConvLstm{.hidden_size = size, .height = input_size, .width = 1, .peepholes = true};
    case 9:
      return OrthogonalLinear{.outputs = size};
    case 10:
      return OrthogonalConv{.channels = size, .height = input_size, .width = 1};
    case 11:
    case 12:
      return Bidirectional{draw_layers(random, input_size, depth - 1, false)};
    default:
      return Residual{draw_layers(random, input_size, depth - 1, true)};
  }
}

}  // namespace detail

/// A layer made of others, of kinds and sizes that the seed decides: at most three deep, smooth, without
/// vanishing gradients.
inline LayerOptions random_layer(std::uint64_t seed, Index input_size) {
  RandomStream random(seed, RandomPurpose::test);
  if (seed % 2 == 0) return Bidirectional{detail::draw_layers(random, input_size, 3, false)};
  return Residual{detail::draw_layers(random, input_size, 3, true)};
}

}  // namespace orthornn::testing
