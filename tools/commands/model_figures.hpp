#pragma once
// What `inspect --export` writes of a model, for plots.

#include <optional>
#include <vector>

#include "commands/array_file.hpp"
#include "commands/delta_figures.hpp"
#include "orthornn/layers/orthogonal_layer.hpp"
#include "orthornn/nn/model.hpp"
#include "orthornn/train/model_file.hpp"

namespace orthornn::program {

/// The layers of a model whose transition is orthogonal, in their order.
std::vector<const OrthogonalLayer<float>*> orthogonal_layers(const Model<float>& model);
/// Adds, for each orthogonal layer, LAYER/Q [N, N] in full precision and LAYER/angles [N] of its eigenvalues,
/// rising and in radians; the model must be prepared.
void add_orthogonal_layers(ArrayFile& file, const Model<float>& model);
/// Adds what was observed of DeltaProduct layers: LAYER/betas [H, T, n], and so on.
void add_delta_figures(ArrayFile& file, const DeltaFigures& figures);
/// Adds the numbers that `inspect` prints: orthogonality_error, where it was computed, parameter_count, and
/// of a training steps, seed, best_loss and best_step.
void add_scalars(ArrayFile& file, const Model<float>& model, const ModelFileInfo& info,
                 std::optional<double> orthogonality_error);

}  // namespace orthornn::program
