#pragma once
// What a sequence model is made of, as plain values: the names a user writes and a model file keeps.

#include <variant>

#include "orthornn/core/fields.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Input of real vectors [T, B, size], batch_names::features.
struct DenseInput {
  static constexpr const char* name = "dense";  ///< Name in files.
  /// Size of a step's vector, 1 or more.
  Index size = 1;

  static void fields(auto&& visit) { visit("size", &DenseInput::size, domain::count, "Numbers a step"); }
};
/// Input of symbols 0 to symbols - 1, [T, B], batch_names::symbols, as unit vectors. The vectors are never
/// formed: a symbol picks a column of the input weights.
struct OneHot {
  static constexpr const char* name = "one_hot";  ///< Name in files.
  /// Number of symbols, 1 or more.
  Index symbols = 2;

  static void fields(auto&& visit) { visit("symbols", &OneHot::symbols, domain::count, "Known symbols"); }
};
/// Input of symbols 0 to tokens - 1, [T, B], batch_names::symbols, each with a learned vector.
struct TokenEmbedding {
  static constexpr const char* name = "embedding";  ///< Name in files.
  /// Number of symbols, 1 or more.
  Index tokens = 2;
  /// Size of a symbol's vector, 1 or more.
  Index size = 1;

  static void fields(auto&& visit) {
    visit("tokens", &TokenEmbedding::tokens, domain::count, "Known tokens");
    visit("size", &TokenEmbedding::size, domain::count, "Numbers in a token's vector");
  }
};
/// Options of a model's input.
using InputOptions = std::variant<DenseInput, OneHot, TokenEmbedding>;

/// Readout at each of the T steps, [T, B, outputs].
struct EveryStep {
  static constexpr const char* name = "every_step";  ///< Name in files.
  /// Number of outputs of a step, 1 or more.
  Index outputs = 1;

  static void fields(auto&& visit) { visit("outputs", &EveryStep::outputs, domain::count, "Outputs a step"); }
};
/// Readout of the last live step alone, [B, outputs].
struct LastStep {
  static constexpr const char* name = "last_step";  ///< Name in files.
  /// Number of outputs, 1 or more.
  Index outputs = 1;

  static void fields(auto&& visit) { visit("outputs", &LastStep::outputs, domain::count, "Outputs"); }
};
/// Readout at each pixel of the frames at each of the T steps, [T, B, outputs]: one map of the N / pixels
/// numbers of a pixel to its outputs / pixels numbers, for all pixels.
struct EveryPixel {
  static constexpr const char* name = "every_pixel";  ///< Name in files.
  /// Number of outputs of a step, a multiple of the number of pixels.
  Index outputs = 1;
  /// Pixels of a frame, 1 or more.
  Index pixels = 1;

  static void fields(auto&& visit) {
    visit("outputs", &EveryPixel::outputs, domain::count, "Outputs a step");
    visit("pixels", &EveryPixel::pixels, domain::count, "Pixels of a frame");
  }
};
/// Options of a model's readout.
using ReadoutOptions = std::variant<EveryStep, LastStep, EveryPixel>;

/// Whether a readout answers at every step, and not the last one alone.
inline bool answers_every_step(const ReadoutOptions& readout) {
  return !std::holds_alternative<LastStep>(readout);
}
/// Number of outputs of a readout, of a step or of the last one.
inline Index output_size_of(const ReadoutOptions& readout) {
  return std::visit([](const auto& options) { return options.outputs; }, readout);
}

/// Loss of a target, which is summed over all targets that count.
enum class Loss {
  softmax_cross_entropy,      ///< The loss -log softmax(output)[class], of classes.
  mean_squared_error,         ///< The squared difference of output and value, of numbers.
  absolute_and_squared_error  ///< The absolute difference of output and value and its square, of numbers.
};
template <>
struct Names<Loss> {
  using enum Loss;
  static constexpr Choice<Loss> list[] = {{"softmax_cross_entropy", softmax_cross_entropy},
                                          {"mean_squared_error", mean_squared_error},
                                          {"absolute_and_squared_error", absolute_and_squared_error}};
};

}  // namespace orthornn
