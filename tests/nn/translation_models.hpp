#pragma once

#include <vector>

#include "orthornn/nn/encoder_decoder.hpp"

namespace orthornn::testing {

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
