#include "train/generate_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {
namespace {

/// Draws from the softmax of logits [C] over the temperature, in the order of the symbols from `first` on.
std::int32_t drawn_symbol(std::span<const float> all, std::int32_t first, double temperature,
                          RandomStream& random) {
  const std::span<const float> logits = all.subspan(static_cast<std::size_t>(first));
  const auto largest = std::ranges::max_element(logits);
  if (temperature == 0) return first + static_cast<std::int32_t>(largest - logits.begin());
  std::vector<double> shares;
  double sum = 0;
  for (const float logit : logits)
    shares.push_back(sum +=
                     std::exp((static_cast<double>(logit) - static_cast<double>(*largest)) / temperature));
  const auto found = std::ranges::upper_bound(shares, random.uniform() * sum);
  return first + static_cast<std::int32_t>(std::min(found - shares.begin(), std::ssize(shares) - 1));
}

/// A model that is given symbol after symbol of one text.
class Reader {
 public:
  explicit Reader(SequenceModel<float>& model) : generator_(model, 1) {}

  /// The logits of the next symbol, on the host, valid until the next call.
  std::span<const float> next(std::int32_t symbol) {
    const TensorView<const float> outputs = generator_.step(ConstTensorView<std::int32_t>(&symbol, Shape{1}));
    logits_.reserve(outputs.shape());
    copy<float>(outputs, logits_.view());
    return {logits_.data(), static_cast<std::size_t>(logits_.size())};
  }

 private:
  SequenceModel<float>::Generator generator_;
  Tensor<float> logits_;
};

/// What a text begins with: its end, or the end of a line within a long text.
std::vector<std::int32_t> beginning(const TaskText& text, const std::string& prompt) {
  std::vector<std::int32_t> symbols;
  if (const auto end = text.text_end())
    symbols = {*end};
  else
    symbols = text.symbols_of("\n");
  const std::vector<std::int32_t> given = text.symbols_of(prompt);
  symbols.insert(symbols.end(), given.begin(), given.end());
  return symbols;
}

}  // namespace

void generate_text(SequenceModel<float>& model, const Task& task, const GenerateOptions& options,
                   const std::function<void(std::string_view text)>& write) {
  const TaskText* const known = task.text();
  if (known == nullptr) throw ValueError("the task has no text; expected one whose symbols are a text");
  const Index count = task.data().symbols;
  if (known->ahead() != 1) {
    throw ValueError(
        fmt::format("the model was trained with --ahead {}; expected 1, the next symbol", known->ahead()));
  }
  const auto* input = std::get_if<OneHot>(&model.options().input);
  const auto* readout = std::get_if<EveryStep>(&model.options().readout);
  if (input == nullptr || input->symbols != count || readout == nullptr || readout->outputs != count)
    throw ValueError("the model does not answer the next symbol; expected one of --goal forecast and a text");
  std::optional<Reader> reader(model);
  std::span<const float> logits;
  for (const std::int32_t symbol : beginning(*known, options.prompt)) logits = reader->next(symbol);
  // What is unknown cannot be written.
  const std::int32_t first = known->unknown_symbol() ? *known->unknown_symbol() + 1 : 0;
  if (first >= count) throw ValueError("the model knows no symbol that could be written");
  RandomStream random(options.seed, RandomPurpose::generation);
  std::vector<std::int32_t> symbols;
  std::string text;
  for (Index i = 0; i < options.symbols; ++i) {
    const std::int32_t symbol = drawn_symbol(logits, first, options.temperature, random);
    // With what came before it: words have spaces between them.
    symbols.push_back(symbol);
    const std::string longer = known->text_of(symbols);
    write(std::string_view(longer).substr(text.size()));
    text = longer;
    if (symbol == known->text_end() || symbols.size() > 256) {
      symbols.assign(1, symbol);
      text = known->text_of(symbols);
    }
    if (symbol == known->text_end()) reader.emplace(model);
    logits = reader->next(symbol);
  }
}

}  // namespace orthornn
