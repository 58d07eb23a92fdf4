#include <iostream>
#include <orthornn/orthornn.hpp>
using namespace orthornn;

int main() {
  const CopyingTask task({.delay = 3, .batch = 16});
  SequenceModel<float> model(Device::best(), model_for(task.data(), {OrthogonalCell{.hidden_size = 32}}));
  Trainer trainer(model, task, {.optimizer = RmsProp{.lr = 2e-3}});
  trainer.run(100, [](const TrainingStep&) { return true; });
  std::cout << trainer.evaluate().loss << " of " << task.baseline_loss() << "\n";
  save_model("copying.h5", model);
  return trainer.evaluate().loss < task.baseline_loss() ? 0 : 1;
}
