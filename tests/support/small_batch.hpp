#pragma once

#include "orthornn/nn/sequence_model.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {

/// A batch of random inputs and targets that fits the options; some targets do not count.
inline Batch batch_for(const ModelOptions& options, Index length, Index batch, std::uint64_t seed = 7) {
  Batch result;
  RandomStream random(seed, RandomPurpose::validation, 99);
  const auto symbols = [&](Index count) {
    result.integers(batch_names::symbols).resize({length, batch});
    for (std::int32_t& s : result.integers(batch_names::symbols))
      s = static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(count)));
  };
  if (const auto* dense = std::get_if<DenseInput>(&options.input)) {
    result.reals(batch_names::features) = normal_tensor<float>({length, batch, dense->size}, seed);
  } else if (const auto* one_hot = std::get_if<OneHot>(&options.input)) {
    symbols(one_hot->symbols);
  } else {
    symbols(std::get<TokenEmbedding>(options.input).tokens);
  }
  const bool every_step = answers_every_step(options.readout);
  const Index outputs = output_size_of(options.readout);
  if (options.loss == Loss::softmax_cross_entropy) {
    result.integers(batch_names::classes).resize(every_step ? Shape{length, batch} : Shape{batch});
    for (std::int32_t& c : result.integers(batch_names::classes)) {
      c = static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(outputs + 1))) - 1;
    }
    *result.integers(batch_names::classes).begin() = 0;
  } else {
    result.reals(batch_names::values) =
        normal_tensor<float>(every_step ? Shape{length, batch, outputs} : Shape{batch, outputs}, seed + 1);
  }
  return result;
}

/// Learned initial states start at 0, where a test would not see them missing.
template <class T>
void draw_initial_states(SequenceModel<T>& model) {
  for (std::size_t i = 0; i < model.parameters().list().size(); ++i) {
    if (!model.parameters().list()[i].name.ends_with("/initial_state")) continue;
    const TensorView<T> state = model.parameters().value(static_cast<Index>(i));
    copy<T>(normal_tensor<T>(state.shape(), 11 + i), state);
  }
}

/// Live steps 0, 1 .. up to `length`, again and again.
inline Tensor<std::int32_t> mixed_lengths(Index length, Index batch) {
  Tensor<std::int32_t> lengths(Shape{batch});
  for (Index b = 0; b < batch; ++b)
    lengths(b) = static_cast<std::int32_t>((length - b % (length + 1)) % (length + 1));
  return lengths;
}

}  // namespace orthornn::testing
