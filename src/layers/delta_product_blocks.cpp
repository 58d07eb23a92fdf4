#include "orthornn/layers/delta_product_blocks.hpp"

namespace orthornn {

std::vector<LayerOptions> delta_product_blocks(const DeltaProductCell& cell,
                                               const std::optional<GatedMlp>& mlp, Index count) {
  std::vector<LayerOptions> layers;
  for (Index i = 0; i < count; ++i) {
    layers.emplace_back(Residual{{RmsNorm{}, cell}});
    if (mlp) layers.emplace_back(Residual{{RmsNorm{}, *mlp}});
  }
  layers.emplace_back(RmsNorm{});
  return layers;
}

}  // namespace orthornn
