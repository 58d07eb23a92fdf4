#include "orthornn/nn/exact_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "core/fields_json.hpp"
#include "nn/exact_plan.hpp"
#include "nn/exact_weights.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/layers/delta_product_blocks.hpp"

namespace orthornn {

/// SiLU rises from -1.278 on.
double inverse_silu(double y) {
  double low = -1.278, high = std::max(1.0, y + 1);
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (middle / (1 + std::exp(-middle)) < y ? low : high) = middle;
  }
  return high;
}

namespace {

using Plan = std::variant<OneLayerPlan, ThreeLayerPlan>;

Plan plan_of(const GroupWords& words, Index layers) {
  if (layers == 1) return OneLayerPlan(words);
  if (layers == 3) return ThreeLayerPlan(words);
  throw ValueError(fmt::format("{} layers; expected 1 or 3, for which a construction is known", layers));
}

/// The layer in a block that has this kind, or nullptr.
template <class Kind>
const Kind* in_block(const LayerOptions& layer) {
  const auto* block = std::get_if<Residual>(&layer);
  return block == nullptr || block->layers.size() != 2 ? nullptr : std::get_if<Kind>(&block->layers[1]);
}

}  // namespace

ExactNetwork::ExactNetwork(const GroupWords& words, Index layers) : words_(words), layers_(layers) {
  for (const Index element : words.elements) {
    if (element < 0 || element >= words.group.order()) {
      throw ValueError(fmt::format("there is no element {} of {}; expected 0 to {}", element,
                                   words.group.name(), words.group.order() - 1));
    }
  }
  const Plan plan = plan_of(words, layers);
  cell_ = std::visit([](const auto& chosen) { return chosen.cell(); }, plan);
  if (const auto* three = std::get_if<ThreeLayerPlan>(&plan)) mlp_ = three->mlp();
}

ModelOptions ExactNetwork::model_options(bool every_step) const {
  return options_with(cell_, mlp_, every_step);
}

ModelOptions ExactNetwork::options_with(const DeltaProductCell& cell, const std::optional<GatedMlp>& mlp,
                                        bool every_step) const {
  ModelOptions options = model_for(
      {.symbols = std::ssize(words_.elements), .classes = words_.group.order(), .every_step = every_step},
      delta_product_blocks(cell, mlp, layers_));
  options.input = TokenEmbedding{.tokens = std::ssize(words_.elements), .size = cell.hidden_size};
  return options;
}

template <class T>
void ExactNetwork::write(SequenceModel<T>& model) const {
  const ModelOptions& found = model.options();
  const DeltaProductCell* delta = found.cells.empty() ? nullptr : in_block<DeltaProductCell>(found.cells[0]);
  const GatedMlp* mlp = found.cells.size() < 2 ? nullptr : in_block<GatedMlp>(found.cells[1]);
  // The model must be that of the construction but for sizes that are larger.
  const bool fits = delta != nullptr && delta->hidden_size >= cell_.hidden_size &&
                    delta->heads >= cell_.heads && delta->key_size >= cell_.key_size &&
                    delta->value_size >= cell_.value_size && delta->householder >= cell_.householder &&
                    (!mlp_ || (mlp != nullptr && mlp->mlp_size >= mlp_->mlp_size));
  DeltaProductCell sized = cell_;
  if (fits) {
    sized.hidden_size = delta->hidden_size;
    sized.heads = delta->heads;
    sized.key_size = delta->key_size;
    sized.value_size = delta->value_size;
    sized.householder = delta->householder;
    sized.norm_epsilon = delta->norm_epsilon;  // of no use without a norm
  }
  const bool every_step = std::holds_alternative<EveryStep>(found.readout);
  const ModelOptions expected =
      options_with(sized, mlp == nullptr ? std::nullopt : std::optional(*mlp), every_step);
  if (!fits || json_value(found) != json_value(expected)) {
    throw ValueError(fmt::format(
        "exact parameters for words of {} are those of another model; expected the options {}, or "
        "larger sizes",
        words_.group.name(), json_value(model_options(every_step)).dump()));
  }
  ExactWeights<T> weights(found, sized, mlp != nullptr);
  std::visit([&](const auto& chosen) { chosen.write(weights); }, plan_of(words_, layers_));
  copy<T>(weights.parameters().values(), model.parameters().values());
}

template void ExactNetwork::write<float>(SequenceModel<float>&) const;
template void ExactNetwork::write<double>(SequenceModel<double>&) const;

}  // namespace orthornn
