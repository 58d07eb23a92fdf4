// A model file from a stranger: what inspect prints of it, what predict computes with it, and its task.

#include <algorithm>
#include <initializer_list>

#include "commands/predict_input.hpp"
#include "commands/program.hpp"
#include "fuzz/sound_files.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

namespace {

/// `orthornn inspect FILE`, parsed already.
program::Command inspect_command(const std::string& file, const std::string& more) {
  CLI::App app;
  program::Command chosen;
  program::add_inspect(app, chosen);
  app.parse("inspect " + file + more);
  return chosen;
}

/// Files that predict could be given, for one-dimensional and for symbolic input.
struct Inputs {
  Inputs() {
    const auto write = [](InputFile& file, const auto& x) {
      Hdf5Writer writer;
      writer.dataset("x", x);
      file.write(written(writer).image);
    };
    write(pixels, Tensor<float>({784, 1, 1}));
    write(pairs, Tensor<float>({3, 2, 2}));
    write(symbols, Tensor<std::int32_t>({3, 2}));
  }
  InputFile pixels, pairs, symbols;
};

/// Returns whether it is a model.
bool use(const std::filesystem::path& file, const Inputs& inputs) {
  ModelFileInfo info;
  std::unique_ptr<SequenceModel<float>> model;
  if (!accepted(file, [&] { model = load_model(file, Device::cpu(), &info); })) return false;
  const TensorView<const float> values = std::as_const(*model).parameters().values();
  require(std::find(values.begin(), values.end(), outside_number) == values.end(),
          "the model has numbers of another file");
  for (const InputFile* input : {&inputs.pixels, &inputs.pairs, &inputs.symbols}) {
    accepted([&] {
      const PredictInput read =
          program::read_predict_input(input->path(), model->options(), info.permutation);
      model->forward(read.batch(0, read.count(), read.longest(0, read.count())));
    });
  }
  accepted([&] {
    const std::unique_ptr<Task> task =
        make_task(info.task_config,
                  {.batch = info.batch, .seed = info.seed, .data = {}, .input_order = info.permutation});
    task->baseline_loss();
    if (task->length() <= 100 && info.batch <= 100) evaluate(*model, *task, HeldOut::test);
  });
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<SoundFile> files = model_files();
  static const OutsideFile outside;
  static InputFile file;
  static const program::Command inspect = inspect_command(file.path(), ""),
                                inspect_json = inspect_command(file.path(), " --json");
  static const Inputs inputs;
  // Otherwise all that follows finds nothing. Ours are the first half of them.
  static const bool sound = [] {
    for (std::size_t i = 0; i < files.size() / 2; ++i) {
      file.write(unedited(files[i], outside.path()));
      require(use(file.path(), inputs) && accepted(inspect), "a sound model is refused");
    }
    return true;
  }();
  static_cast<void>(sound);

  EditProgram edits({data, size});
  file.write(edited(edits.element_of(files), edits, outside.path()));
  accepted(file.path(), inspect);
  accepted(file.path(), inspect_json);
  use(file.path(), inputs);
  require_hdf5_closed();
  return 0;
}
