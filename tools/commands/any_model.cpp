#include "commands/any_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "commands/program.hpp"

namespace orthornn::program {
namespace {

template <class Made, class Options>
std::unique_ptr<Model<float>> made(const Execution& execution, const Options& options,
                                   std::optional<std::uint64_t> seed) {
  if (seed) return std::make_unique<Made>(execution, options, *seed);
  return std::make_unique<Made>(execution, options, Undrawn{});
}

}  // namespace

std::unique_ptr<Model<float>> make_model(const Execution& execution, const AnyModelOptions& options,
                                         std::optional<std::uint64_t> seed) {
  if (const auto* translation = std::get_if<EncoderDecoderOptions>(&options))
    return made<EncoderDecoder<float>>(execution, *translation, seed);
  return made<SequenceModel<float>>(execution, std::get<ModelOptions>(options), seed);
}

Index parameter_count(const AnyModelOptions& options) {
  return std::visit([](const auto& chosen) { return parameter_layout<float>(chosen).count(); }, options);
}

void check_sizes(const AnyModelOptions& options) { parameter_count(options); }

std::optional<Index> fewest_positions(const std::vector<LayerOptions>& layers) {
  std::optional<Index> fewest;
  each_layer(layers, [&](const LayerOptions& layer) {
    if (const auto* positions = std::get_if<Positions>(&layer))
      fewest = std::min(fewest.value_or(positions->steps), positions->steps);
  });
  return fewest;
}

std::vector<LayerOptions> layers_of(const AnyModelOptions& options) {
  if (const auto* sequences = std::get_if<ModelOptions>(&options)) return sequences->cells;
  const auto* translation = std::get_if<EncoderDecoderOptions>(&options);
  if (translation == nullptr) return {};
  std::vector<LayerOptions> layers = translation->encoder;
  layers.insert(layers.end(), translation->decoder.begin(), translation->decoder.end());
  return layers;
}

void check_reads_forward(const char* option, const std::string& file, const SequenceModel<float>& model) {
  for (Index i = 0; i < model.cell_count(); ++i) {
    if (model.cell(i).is_causal()) continue;
    throw UsageError(
        fmt::format("{} is for models that read forward: layer {} of '{}' also reads backward in time, and "
                    "its states are known after whole sequences only",
                    option, i, file));
  }
}

}  // namespace orthornn::program
