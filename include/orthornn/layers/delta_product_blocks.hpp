#pragma once

#include <optional>
#include <vector>

#include "orthornn/layers/layer_options.hpp"

namespace orthornn {

/// Makes the layers of a DeltaProduct network between its embedding and its classifier: `count` blocks
/// x + DeltaProduct(norm(x)), each followed by x + mlp(norm(x)) where there is an `mlp`, and a norm at the
/// end. They read hidden_size numbers a step. With a `dropout` above 0, the numbers that are added to x go
/// through Dropout of that rate.
std::vector<LayerOptions> delta_product_blocks(const DeltaProductCell& cell,
                                               const std::optional<GatedMlp>& mlp, Index count,
                                               double dropout = 0);

}  // namespace orthornn
