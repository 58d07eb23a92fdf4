#include "commands/train_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "commands/any_model.hpp"
#include "commands/config_file.hpp"
#include "commands/translation.hpp"
#include "orthornn/layers/delta_product_blocks.hpp"

namespace orthornn::program {

std::vector<std::string> cell_names() {
  std::vector<std::string> names = names_of<TransitionOptions>();
  for (const std::string& kind : names_of<RecurrentOptions>()) {
    if (kind != OrthogonalCell::name) names.push_back(kind);
  }
  names.emplace_back(DeltaProductCell::name);
  names.emplace_back(ConvNeru::name);
  names.emplace_back(ConvLstm::name);
  return names;
}

bool TrainSettings::takes(const CLI::Option& option, const std::string& name) const {
  return std::ranges::none_of(owned_, [&](const OwnedOption& own) {
    return own.option == &option && own.is_of("--cell") && !own.belongs_to(name) && !own.belongs_to(encoder);
  });
}

GroupWords TrainSettings::exact_words(const Task& of_task) const {
  if (std::optional<GroupWords> words = of_task.group_words()) return *std::move(words);
  throw ValueError(
      fmt::format("the task {} is no word problem of a group; expected the task words, or language with "
                  "--language parity or cycle",
                  of_task.config()));
}

std::optional<ExactNetwork> TrainSettings::exact_network(const Task& of_task) const {
  if (!is_exact()) return std::nullopt;
  return ExactNetwork(exact_words(of_task), layers);
}

std::unique_ptr<Task> TrainSettings::make_task() const {
  TaskSource with_data = source;
  files.add_to(with_data);
  return orthornn::make_task(task.chosen(), with_data);
}

std::optional<double> TrainSettings::steps_of_epochs(const Task& described, double passes) const {
  const std::optional<Index> batches = described.batches_per_epoch();
  if (!batches) return std::nullopt;
  return std::max(
      1.0, std::round(passes * static_cast<double>(*batches) / static_cast<double>(trainer.accumulate)));
}

std::string TrainSettings::to_toml(CLI::App& command) const {
  return config_text(command, stack.empty() ? "" : model_group) + (stack.empty() ? "" : layers_text(stack));
}

LayerOptions TrainSettings::recurrent() const {
  const LayerOptions* first = nullptr;
  each_layer(stack, [&](const LayerOptions& layer) {
    if (first == nullptr && is_recurrence(layer)) first = &layer;
  });
  return first != nullptr ? *first : recurrent(transition.name);
}

LayerOptions TrainSettings::recurrent(const std::string& name) const {
  if (name == DeltaProductCell::name) {
    DeltaProductCell sized = delta;
    sized.learn_initial_state = cell.learn_initial_state;
    sized.hidden_size = cell.hidden_size;
    return sized;
  }
  if (name == ConvNeru::name) {
    ConvNeru sized = conv_neru;
    sized.hidden_size = cell.hidden_size;
    return sized;
  }
  if (name == ConvLstm::name) {
    return ConvLstm{.hidden_size = cell.hidden_size,
                    .height = conv_neru.height,
                    .width = conv_neru.width,
                    .kernel_size = conv_neru.kernel_size,
                    .peepholes = peepholes};
  }
  std::optional<RecurrentOptions> options = find_name<RecurrentOptions>(name);
  if (!options) {
    OrthogonalCell orthogonal = cell;
    orthogonal.transition = transition.named(name);
    return orthogonal;
  }
  std::visit([&](auto& chosen) { chosen.hidden_size = cell.hidden_size; }, *options);
  return layer_options(*options);
}

std::string TrainSettings::encoder_name() const {
  return encoder.empty() || !is_translation(task.name) ? transition.name : encoder;
}

std::vector<std::string> TrainSettings::names_of_parts() const {
  if (encoder_name() == transition.name) return {transition.name};
  return {transition.name, encoder_name()};
}

std::vector<LayerOptions> TrainSettings::recurrences_of_parts() const {
  std::vector<LayerOptions> found = {recurrent()};
  if (names_of_parts().size() > 1) found.push_back(recurrent(encoder_name()));
  return found;
}

std::string TrainSettings::cell_text() const {
  if (names_of_parts().size() == 1) return cell_name();
  return fmt::format("{}, encoder {}", cell_name(), encoder_name());
}

std::vector<LayerOptions> TrainSettings::layers_of(const std::string& name, Index input_size) const {
  const LayerOptions chosen = recurrent(name);
  if (name != DeltaProductCell::name)
    return std::vector<LayerOptions>(static_cast<std::size_t>(layers), chosen);
  const auto& sized = std::get<DeltaProductCell>(chosen);
  std::vector<LayerOptions> blocks =
      delta_product_blocks(sized, no_mlp ? std::nullopt : std::optional(mlp), layers, block_dropout);
  if (positions > 0) blocks.insert(blocks.begin(), Positions{positions});
  // A block adds to what it reads.
  if (input_size != sized.hidden_size) blocks.insert(blocks.begin(), Linear{sized.hidden_size});
  return blocks;
}

EncoderDecoderOptions TrainSettings::translation_options(const SequenceData& of_task) const {
  EncoderDecoderOptions options = translation;
  options.source_symbols = of_task.symbols;
  options.target_symbols = of_task.classes;
  options.decoder = layers_of(transition.name, options.embedding_size);
  options.encoder = layers_of(encoder_name(), options.embedding_size);
  if (bidirectional) options.encoder = {Bidirectional{options.encoder}};
  return options;
}

AnyModelOptions TrainSettings::model_options(const Task& of_task) const {
  const SequenceData found = of_task.data();
  if (found.pairs) return translation_options(found);
  if (!stack.empty()) return model_for(found, stack);
  if (transition.name != DeltaProductCell::name || found.symbols == 0)
    return model_for(found, layers_of(transition.name, found.features));
  ModelOptions options = model_for(found, layers_of(transition.name, cell.hidden_size));
  options.input = TokenEmbedding{.tokens = found.symbols, .size = cell.hidden_size};
  return options;
}

}  // namespace orthornn::program
