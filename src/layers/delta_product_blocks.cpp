#include "orthornn/layers/delta_product_blocks.hpp"

#include <utility>

namespace orthornn {

std::vector<LayerOptions> delta_product_blocks(const DeltaProductCell& cell,
                                               const std::optional<GatedMlp>& mlp, Index count,
                                               double dropout) {
  std::vector<LayerOptions> layers;
  const auto add_residual = [&](const LayerOptions& layer) {
    Residual residual{{RmsNorm{}, layer}};
    if (dropout > 0) residual.layers.emplace_back(Dropout{dropout});
    layers.emplace_back(std::move(residual));
  };
  for (Index i = 0; i < count; ++i) {
    add_residual(cell);
    if (mlp) add_residual(*mlp);
  }
  layers.emplace_back(RmsNorm{});
  return layers;
}

}  // namespace orthornn
