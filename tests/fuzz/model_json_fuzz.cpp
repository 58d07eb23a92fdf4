// Options of models and trainings as JSON, as a model file has them. What they make describes itself by a
// text that makes the same.

#include "fuzz/edit_program.hpp"
#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/train/model_file.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

namespace {

/// Few enough numbers to draw them for each input.
bool is_small(const ModelOptions& options) {
  const auto small = [](Index size) { return size <= 16; };
  const auto size = [](const auto& o) {
    if constexpr (requires { o.symbols; }) return o.symbols;
    if constexpr (requires { o.tokens; }) return std::max(o.tokens, o.size);
    if constexpr (requires { o.outputs; }) return o.outputs;
    if constexpr (requires { o.size; }) return o.size;
  };
  int layers = 0;
  bool all_small = true;
  each_layer(options.cells, [&](const LayerOptions& layer) {
    ++layers;
    all_small = all_small && small(output_size_of(layer, 1));
    std::visit(
        [&](const auto& chosen) {
          if constexpr (requires { chosen.kernel_size; }) all_small = all_small && small(chosen.kernel_size);
        },
        layer);
  });
  return layers <= 8 && all_small && small(std::visit(size, options.input)) &&
         small(std::visit(size, options.readout));
}

void try_model(const std::string& text) {
  ModelOptions options;
  if (!accepted([&] { options = model_options_from_json(text); })) return;
  const std::string again = to_json(options);
  require(to_json(model_options_from_json(again)) == again,
          "a model's JSON changes when it is read again: " + again);
  if (is_small(options)) accepted([&] { SequenceModel<float>(Device::cpu(), options); });
}

void try_training(const std::string& text) {
  TrainerOptions options;
  if (!accepted([&] { options = trainer_options_from_json(text); })) return;
  const std::string again = to_json(options);
  require(to_json(trainer_options_from_json(again)) == again,
          "a training's JSON changes when it is read again: " + again);
  static const AddingTask task({.length = 5, .batch = 2});
  static SequenceModel<float> model(
      Device::cpu(), model_for(task.data(), {OrthogonalCell{.hidden_size = 3, .transition = Cwy{2}}}));
  accepted([&] { Trainer(model, task, options).step(); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = text_of({data, size});
  try_model(text);
  try_training(text);
  return 0;
}
