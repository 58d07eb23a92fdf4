#pragma once

#include <cstdint>
#include <vector>

#include "orthornn/nn/encoder_decoder.hpp"

namespace orthornn {

/// How a beam search goes.
struct BeamSearchOptions {
  /// Number K of hypotheses of a sequence that are followed, 1 to 1000. With 1 each step takes the most
  /// probable symbol (greedy).
  Index beam = 5;
  /// Largest length penalty. With a larger one all scores would be 0 up to rounding: 1000^10 is 1e30.
  static constexpr double largest_penalty = 10;
  /// Power a of the length by which the logarithm of a probability is divided, 0 to 10; 0 for no
  /// normalisation.
  double length_penalty = 1;
  /// Largest number of symbols of an answer, the end included; 3 S + 10 for a sequence of S steps where that
  /// is fewer.
  Index most_symbols = 1000;

  static void fields(auto&& visit) {
    using O = BeamSearchOptions;
    visit("beam", &O::beam, Domain{.low = 1, .high = 1000}, "Hypotheses that are followed; 1: greedy");
    visit("length_penalty", &O::length_penalty, Domain{.low = 0, .high = largest_penalty},
          "Power of the length that divides the logarithm of a probability; 0 favours short answers");
  }
};

/// Symbols with a special meaning in answers.
struct AnswerSymbols {
  /// Symbol before the first one of an answer.
  std::int32_t begin;
  /// Symbol after the last one of an answer.
  std::int32_t end;
  /// Symbols that no answer has.
  std::vector<std::int32_t> excluded = {};
};

/// An answer to one sequence.
struct Hypothesis {
  /// Symbols of the answer, without begin and end.
  std::vector<std::int32_t> symbols;
  /// Natural logarithm of the answer's probability, with the probability of the end.
  double log_probability = 0;
  /// Score by which hypotheses are ordered: log_probability / length^a, the end counted (Wu et al., "Google's
  /// neural machine translation system", 2016, section 7, in its simplest form).
  double score = 0;
  /// Whether the answer reached its end, and not `most_symbols`.
  bool complete = false;
  /// Attention weights over the sequence's live steps, for each symbol and, where the answer is complete, for
  /// the end.
  std::vector<std::vector<float>> attention;
};

/// Finds answers to the B sequences batch_names::source and source_lengths: for each at most K hypotheses,
/// the best one first. The hypothesis of the greedy search is always followed to its end, so a beam never
/// scores below it. Equal scores are ordered by symbol, so equal numbers give equal answers. The search
/// itself runs on the CPU, with logarithms of probabilities that were rounded to float. Throws as the model's
/// Generator, and ValueError for options outside their domain.
template <class T>
std::vector<std::vector<Hypothesis>> beam_search(EncoderDecoder<T>& model, const Batch& batch,
                                                 const AnswerSymbols& symbols,
                                                 const BeamSearchOptions& options = {});
/// Finds answers to the sequences of one of many batches: the model is prepared once, when the generator is
/// made. Throws as `beam_search` with a model.
template <class T>
std::vector<std::vector<Hypothesis>> beam_search(typename EncoderDecoder<T>::Generator& generator,
                                                 const Batch& batch, const AnswerSymbols& symbols,
                                                 const BeamSearchOptions& options = {});

}  // namespace orthornn
