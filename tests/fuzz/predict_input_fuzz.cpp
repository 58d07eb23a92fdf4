// The HDF5 file that predict is given, from h5py or from anywhere. Own sequences in npz and CSV are read as
// sequences_fuzz.cpp does.

#include <algorithm>

#include "commands/predict_input.hpp"
#include "fuzz/sound_files.hpp"
#include "orthornn/orthornn.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

namespace {

/// A model, and the order in which it reads its steps.
struct Reader {
  Reader(const InputOptions& input, const ReadoutOptions& readout, std::initializer_list<std::int32_t> steps)
      : model(Device::cpu(), {.input = input,
                              .cells = {OrthogonalCell{.hidden_size = 3, .transition = Cwy{2}}},
                              .readout = readout}),
        order(Shape{static_cast<Index>(steps.size())}) {
    std::copy(steps.begin(), steps.end(), order.begin());
  }
  SequenceModel<float> model;
  Tensor<std::int32_t> order;
};

/// Reads the file and computes with it; returns whether both could be done.
bool use(const std::filesystem::path& file, Reader& reader) {
  std::vector<PredictInput> inputs;
  if (!accepted(file, [&] {
        inputs.push_back(program::read_predict_input(file, reader.model.options(), reader.order));
      })) {
    return false;
  }
  const Tensor<float>& features = inputs[0].features;
  require(std::find(features.begin(), features.end(), outside_number) == features.end(),
          "the input has numbers of another file");
  const BatchPart part = first_part(StepLayout(inputs), inputs[0]);
  return accepted([&] {
    reader.model.forward(inputs[0].batch(part.first, part.sequences, part.steps));
    ModelState<float> state;
    reader.model.final_state(state);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<SoundFile> files = input_files();
  static Reader plain(DenseInput{1}, EveryStep{2}, {}), ordered(DenseInput{1}, LastStep{2}, {3, 1, 4, 0, 2}),
      one_hot(OneHot{10}, EveryStep{2}, {}), embedding(TokenEmbedding{7, 2}, LastStep{2}, {});
  static const OutsideFile outside;
  static InputFile file;
  // Otherwise all that follows finds nothing. The first files hold floats, the last ones symbols.
  static const bool sound = [] {
    for (std::size_t i = 0; i < files.size(); ++i) {
      file.write(unedited(files[i], outside.path()));
      require(use(file.path(), i < files.size() / 2 ? plain : embedding), "a sound input is refused");
    }
    return true;
  }();
  static_cast<void>(sound);

  EditProgram edits({data, size});
  Reader& reader = *edits.one_of({&plain, &ordered, &one_hot, &embedding});
  file.write(edited(edits.element_of(files), edits, outside.path()));
  use(file.path(), reader);
  require_hdf5_closed();
  return 0;
}
