#pragma once
// A text that a model of the next symbol draws.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

/// How a text is generated.
struct GenerateOptions {
  /// Symbols that are drawn, >= 1.
  Index symbols = 0;
  /// Divides the logits before a symbol is drawn; 0: the likeliest symbol is taken.
  double temperature = 1;
  /// Text that comes before; it is not written again.
  std::string prompt = {};
  /// Seed of the draws.
  std::uint64_t seed = 1;
};

/// Draws symbol after symbol from a model of the next symbol, and hands the text to `write` as it grows. A
/// text that ends is followed by another one. Throws ValueError where the task has no text, and where the
/// model does not read and answer its symbols or cannot be run step by step.
void generate_text(SequenceModel<float>& model, const Task& task, const GenerateOptions& options,
                   const std::function<void(std::string_view text)>& write);

}  // namespace orthornn
