// A training: an orthogonal network learns to read ten symbols, keep them for 100 steps and write them.
#include <iostream>
#include <orthornn/orthornn.hpp>
using namespace orthornn;

int main() {
  const CopyingTask task({.delay = 100, .batch = 32, .seed = 1});
  const OrthogonalCell cell{
      .hidden_size = 128, .transition = Cwy{.reflections = 128}, .activation = Activation::modrelu};
  SequenceModel<float> model(Device::best(), model_for(task.data(), {cell}));
  Trainer trainer(model, task, {.optimizer = RmsProp{.lr = 1e-3, .lr_orthogonal = 1e-4}});
  std::cout << "loss of a guesser: " << task.baseline_loss() << "\n";
  trainer.run(200, [](const TrainingStep& step) {
    if (step.step % 50 == 0) std::cout << "step " << step.step << "  loss " << step.loss() << "\n";
    return true;
  });
  save_checkpoint("copying.h5", trainer);
  const Evaluation test = evaluate(model, task, HeldOut::test);
  std::cout << "test data: " << 100 * *test.metric("accuracy") << " % of the symbols are right\n"
            << "max |I - Q^T Q|: " << *model.orthogonality_error() << "\n";
  return task.solved(test) ? 0 : 1;
}
