// HDF5 files whose bytes are damaged, or forged with right checksums: models and inputs of predict, of the
// newest and the oldest format.

#include "commands/predict_input.hpp"
#include "fuzz/sound_files.hpp"
#include "orthornn/train/model_file.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<SoundFile> models = model_files(), inputs = input_files();
  static const ModelOptions reads_floats{.input = DenseInput{1}}, reads_symbols{.input = OneHot{10}};
  static const OutsideFile outside;
  static InputFile file;

  EditProgram edits({data, size});
  switch (edits.below(3)) {
    case 0:
      file.write(edited_and_damaged(edits.element_of(models), edits, outside.path()));
      break;
    case 1:
      file.write(edited_and_damaged(edits.element_of(inputs), edits, outside.path()));
      break;
    default:
      file.write(edits.rest());
  }
  accepted(file.path(), [&] { load_model(file.path()); });
  // One of the two: a file on which HDF5 hangs costs each reader two seconds.
  const ModelOptions& model = size % 2 == 0 ? reads_floats : reads_symbols;
  accepted(file.path(), [&] { program::read_predict_input(file.path(), model, {}); });
  require_hdf5_closed();
  return 0;
}
