// train_and_save DEVICE FILE: a few steps from a fixed seed, then everything to the file. trainer_device_test
// runs it twice.

#include <cstdio>

#include "orthornn/core/error.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/train/model_file.hpp"
#include "orthornn/train/trainer.hpp"

using namespace orthornn;

int main(int count, char** arguments) {
  if (count != 3) return 2;
  try {
    const CopyingTask task({.delay = 5, .batch = 7});
    SequenceModel<float> model(Device::parse(arguments[1]),
                               model_for(task.data(), {OrthogonalCell{.hidden_size = 40}}), 3);
    Trainer trainer(model, task, {.optimizer = Adam{.lr = 1e-2}});
    trainer.run(5, [](const TrainingStep&) { return true; });
    save_checkpoint(arguments[2], trainer);
  } catch (const Error& error) {
    std::fprintf(stderr, "train_and_save: %s\n", error.what());
    return 1;
  }
}
