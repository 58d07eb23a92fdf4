#pragma once
// What a sequence model is made of, as plain values: the names a user writes and a model file keeps.

#include <variant>

#include "orthornn/core/fields.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Real vectors, [T, B, size].
struct DenseInput {
  static constexpr const char* name = "dense";
  Index size = 1;

  static void fields(auto&& visit) { visit("size", &DenseInput::size, domain::count, "Numbers a step"); }
};
/// Symbols 0 .. symbols - 1 as unit vectors that are never formed: [T, B] picks columns of the input weights.
struct OneHot {
  static constexpr const char* name = "one_hot";
  Index symbols = 2;

  static void fields(auto&& visit) { visit("symbols", &OneHot::symbols, domain::count, "Known symbols"); }
};
/// Symbols 0 .. tokens - 1, each with a learned vector of `size`.
struct TokenEmbedding {
  static constexpr const char* name = "embedding";
  Index tokens = 2;
  Index size = 1;

  static void fields(auto&& visit) {
    visit("tokens", &TokenEmbedding::tokens, domain::count, "Known tokens");
    visit("size", &TokenEmbedding::size, domain::count, "Numbers in a token's vector");
  }
};
using InputOptions = std::variant<DenseInput, OneHot, TokenEmbedding>;

/// Outputs at each of the T steps, [T, B, outputs].
struct EveryStep {
  static constexpr const char* name = "every_step";
  Index outputs = 1;

  static void fields(auto&& visit) { visit("outputs", &EveryStep::outputs, domain::count, "Outputs a step"); }
};
/// Outputs of the last state alone, [B, outputs].
struct LastStep {
  static constexpr const char* name = "last_step";
  Index outputs = 1;

  static void fields(auto&& visit) { visit("outputs", &LastStep::outputs, domain::count, "Outputs"); }
};
using ReadoutOptions = std::variant<EveryStep, LastStep>;

/// What is summed over all counted targets: -log softmax(output)[class], or the squared difference.
enum class Loss { softmax_cross_entropy, mean_squared_error };
template <>
struct Names<Loss> {
  using enum Loss;
  static constexpr Choice<Loss> list[] = {{"softmax_cross_entropy", softmax_cross_entropy},
                                          {"mean_squared_error", mean_squared_error}};
};

}  // namespace orthornn
