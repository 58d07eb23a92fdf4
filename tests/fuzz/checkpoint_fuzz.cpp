// A checkpoint that a training is to go on from. What goes on is saved, and can be resumed again.

#include "fuzz/sound_files.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/temporary_folder.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const testing::TemporaryFolder folder;
  static const std::vector<SmallTraining> trainings = small_trainings();
  static const OutsideFile outside;
  static InputFile file;
  // Otherwise all that follows finds nothing.
  static const bool sound = [] {
    for (const SmallTraining& training : trainings) {
      file.write(unedited(training.file, outside.path()));
      require(accepted([&] { restore(file.path(), *training.trainer); }), "a sound checkpoint is refused");
    }
    return true;
  }();
  static_cast<void>(sound);

  EditProgram edits({data, size});
  const SmallTraining& training = trainings[edits.below(trainings.size())];
  Trainer& trainer = *training.trainer;
  file.write(edited(training.file, edits, outside.path()));
  if (accepted(file.path(), [&] { restore(file.path(), trainer); })) {
    const std::filesystem::path again = folder / "again.h5";
    const bool saved = accepted([&] {
      trainer.step();
      save_checkpoint(again, trainer);
    });
    require(!saved || accepted([&] { restore(again, trainer); }),
            "a checkpoint was saved that cannot be resumed");
  }
  require_hdf5_closed();
  return 0;
}
