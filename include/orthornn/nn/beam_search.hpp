#pragma once

#include <cstdint>
#include <vector>

#include "orthornn/nn/encoder_decoder.hpp"

namespace orthornn {

struct BeamSearchOptions {
  /// Hypotheses K of a sequence that are followed; 1: at each step the most probable symbol (greedy).
  Index beam = 5;
  /// Scores with a larger power are 0 up to rounding, and no answer is better than another: 1000^10 is 1e30.
  static constexpr double largest_penalty = 10;
  /// Power a of the length by which the logarithm of a probability is divided. 0: no normalisation.
  double length_penalty = 1;
  /// Symbols of an answer at most, the end included; 3 S + 10 for a sequence of S steps where that is fewer.
  Index most_symbols = 1000;

  static void fields(auto&& visit) {
    using O = BeamSearchOptions;
    visit("beam", &O::beam, Domain{.low = 1, .high = 1000}, "Hypotheses that are followed; 1: greedy");
    visit("length_penalty", &O::length_penalty, Domain{.low = 0, .high = largest_penalty},
          "Power of the length that divides the logarithm of a probability; 0 favours short answers");
  }
};

/// The symbols that an answer begins and ends with, and those that no answer has.
struct AnswerSymbols {
  std::int32_t begin;
  std::int32_t end;
  std::vector<std::int32_t> excluded = {};
};

/// An answer to one sequence.
struct Hypothesis {
  /// Without begin and end.
  std::vector<std::int32_t> symbols;
  /// Logarithm of its probability, that of the end included.
  double log_probability = 0;
  /// log_probability / length^a, the end counted (Wu et al., "Google's neural machine translation system",
  /// 2016, section 7, in its simplest form). What hypotheses are ordered by.
  double score = 0;
  /// Whether the end was reached, and not `most_symbols`.
  bool complete = false;
  /// Attention weights over the sequence's live steps for each symbol and, where it is complete, the end.
  std::vector<std::vector<float>> attention;
};

/// Answers to the sequences batch_names::source and source_lengths, [B]: for each at most K hypotheses, the
/// best one first. The hypothesis of the greedy search is followed to its end in any case, so a beam never
/// scores below it. Equal numbers are ordered by symbol, so the same numbers give the same answers. The
/// search itself runs on the CPU, with logarithms of probabilities that were rounded to float. Throws as the
/// generator, and ValueError for options outside their domain.
template <class T>
std::vector<std::vector<Hypothesis>> beam_search(EncoderDecoder<T>& model, const Batch& batch,
                                                 const AnswerSymbols& symbols,
                                                 const BeamSearchOptions& options = {});
/// The same for a caller with many batches: the model is prepared once, when the generator is made.
template <class T>
std::vector<std::vector<Hypothesis>> beam_search(typename EncoderDecoder<T>::Generator& generator,
                                                 const Batch& batch, const AnswerSymbols& symbols,
                                                 const BeamSearchOptions& options = {});

}  // namespace orthornn
