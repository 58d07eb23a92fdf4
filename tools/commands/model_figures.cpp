#include "commands/model_figures.hpp"

#include <cstdint>
#include <vector>

#include "commands/progress.hpp"
#include "orthornn/layers/container_layer.hpp"
#include "orthornn/layers/orthogonal_layer.hpp"
#include "orthornn/linalg/eigenvalue_angles.hpp"

namespace orthornn::program {
namespace {

/// Adds an array of one row for each head, whose numbers are `list` of it.
void add_heads(ArrayFile& file, const std::string& name, const DeltaObservation& layer,
               std::vector<double> DeltaHeadObservation::*list, const Shape& row) {
  std::vector<double> all;
  Shape shape{std::ssize(layer.heads)};
  for (const Index size : row) shape.append(size);
  for (const DeltaHeadObservation& head : layer.heads)
    all.insert(all.end(), (head.*list).begin(), (head.*list).end());
  file.add(name, TensorView<const double>(all.data(), shape));
}

}  // namespace

std::vector<const OrthogonalLayer<float>*> orthogonal_layers(const Model<float>& model) {
  std::vector<const OrthogonalLayer<float>*> found;
  const auto add_within = [&](const Layer<float>& layer) {
    each_layer_of<OrthogonalLayer<float>>(layer, [&](const OrthogonalLayer<float>& orthogonal) {
      if (orthogonal.transition().parameter_kind() != ParameterKind::ordinary) found.push_back(&orthogonal);
    });
  };
  if (const auto* sequences = dynamic_cast<const SequenceModel<float>*>(&model)) {
    for (Index i = 0; i < sequences->cell_count(); ++i) add_within(sequences->cell(i));
  }
  if (const auto* translation = dynamic_cast<const EncoderDecoder<float>*>(&model)) {
    add_within(translation->encoder());
    add_within(translation->decoder());
  }
  return found;
}

void add_orthogonal_layers(ArrayFile& file, const Model<float>& model) {
  const std::vector<const OrthogonalLayer<float>*> layers = orthogonal_layers(model);
  Progress progress("eigenvalues", std::ssize(layers), "layers");
  for (const OrthogonalLayer<float>* layer : layers) {
    const Tensor<float> q = layer->transition().materialize().copy(Device::cpu());
    file.add(layer->prefix() + "/Q", q);
    file.add(layer->prefix() + "/angles", eigenvalue_angles<float>(q.view()));
    progress.advance();
  }
}

void add_delta_figures(ArrayFile& file, const DeltaFigures& figures) {
  if (figures.layers.empty()) return;
  const auto ranks = std::ssize(figures.rank_steps);
  file.add("rank_steps", figures.rank_steps);
  for (const DeltaObservation& layer : figures.layers) {
    add_heads(file, layer.layer + "/betas", layer, &DeltaHeadObservation::betas,
              {figures.steps, layer.factors});
    add_heads(file, layer.layer + "/ranks", layer, &DeltaHeadObservation::ranks, {ranks});
    if (!layer.has_angles) continue;
    std::vector<double> rotations;
    std::vector<Index> turning;
    for (const DeltaHeadObservation& head : layer.heads) {
      rotations.insert(rotations.end(), head.angles.begin(), head.angles.end());
      turning.push_back(std::ssize(head.angles));
    }
    file.add(layer.layer + "/rotations", rotations);
    file.add(layer.layer + "/rotation_counts", turning);
  }
}

void add_scalars(ArrayFile& file, const Model<float>& model, const ModelFileInfo& info,
                 std::optional<double> orthogonality_error) {
  if (orthogonality_error) file.add_number("orthogonality_error", *orthogonality_error);
  file.add_number("parameter_count", model.parameters().count());
  if (!info.steps) return;
  file.add_number("steps", *info.steps);
  // A seed beyond 2^63 has the same bits.
  file.add_number("seed", static_cast<std::int64_t>(info.seed));
  if (!info.best) return;
  file.add_number("best_loss", info.best->loss);
  file.add_number("best_step", info.best->step);
}

}  // namespace orthornn::program
