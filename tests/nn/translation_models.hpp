#pragma once

#include <initializer_list>
#include <vector>

#include "orthornn/layers/delta_product_blocks.hpp"
#include "orthornn/nn/encoder_decoder.hpp"

namespace orthornn::testing {

/// A DeltaProduct block with all that it may have, for vectors of three numbers. A large epsilon
/// keeps gradients above rounding. A key of fewer numbers may be near 0, where finite differences are bad.
inline std::vector<LayerOptions> small_delta_blocks() {
  return delta_product_blocks({.hidden_size = 3,
                               .heads = 2,
                               .key_size = 3,
                               .value_size = 2,
                               .householder = 2,
                               .state_decay = true,
                               .convolution = 2,
                               .norm_epsilon = 0.5,
                               .output_gate = true},
                              GatedMlp{.mlp_size = 2}, 1);
}

/// Encoder-decoders of every kind that differs in what is computed; tanh is smooth, so that neither finite
/// differences nor rounding errors meet a kink.
inline std::vector<EncoderDecoderOptions> translation_models() {
  const OrthogonalCell cwy{
      .hidden_size = 4, .transition = Cwy{.reflections = 2}, .activation = Activation::tanh};
  OrthogonalCell learned = cwy;
  learned.learn_initial_state = true;
  const auto model = [](std::vector<LayerOptions> encoder, std::vector<LayerOptions> decoder) {
    return EncoderDecoderOptions{.source_symbols = 6,
                                 .target_symbols = 5,
                                 .embedding_size = 3,
                                 .encoder = std::move(encoder),
                                 .decoder = std::move(decoder)};
  };
  std::vector<EncoderDecoderOptions> models;
  models.push_back(model({cwy}, {cwy}));
  models.push_back(model({Lstm{4}}, {Lstm{4}}));
  models.push_back(model({Lstm{3}, Gru{4}}, {Lstm{3}, RmsNorm{}, Gru{4}}));
  // Layers whose states do not fit: the decoder starts from its own.
  models.push_back(model({Bidirectional{{Lstm{2}}}, Linear{5}}, {learned}));
  models.push_back(model({learned}, {Gru{3}, learned}));
  models.push_back(model(small_delta_blocks(), {learned}));
  models.push_back(model({Bidirectional{small_delta_blocks()}}, {Lstm{4}}));
  models.push_back(model(small_delta_blocks(), small_delta_blocks()));
  for (const std::size_t i : {0, 3}) {
    EncoderDecoderOptions tied = models[i];
    tied.tied = true;
    models.push_back(tied);
    EncoderDecoderOptions smoothed = models[i];
    smoothed.label_smoothing = 0.1;
    models.push_back(smoothed);
  }
  return models;
}

}  // namespace orthornn::testing
