// Own sequences in memory: is a noisy wave fast or slow?
#include <cmath>
#include <iostream>
#include <orthornn/orthornn.hpp>
using namespace orthornn;

int main() {
  const Index count = 400, steps = 60;
  Tensor<float> waves({count, steps, 1});      // [N, T, K]
  Tensor<std::int32_t> is_fast(Shape{count});  // [N]
  for (Index i = 0; i < count; ++i) {
    RandomStream random(/*seed=*/1, RandomPurpose::training, static_cast<std::uint64_t>(i));
    is_fast(i) = static_cast<std::int32_t>(random.integer(2));
    const double frequency = is_fast(i) ? random.uniform(0.6, 0.9) : random.uniform(0.3, 0.5);
    const double phase = random.uniform(0, 6.28);
    for (Index t = 0; t < steps; ++t)
      waves(i, t, 0) =
          static_cast<float>(std::sin(frequency * static_cast<double>(t) + phase) + 0.3 * random.normal());
  }

  // A tenth of the sequences each is for validation and for test. Numbers are normalized by the others.
  const DataTask task({.features = waves, .classes = is_fast}, {.batch = 32});
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {OrthogonalCell{.hidden_size = 32}}));
  Trainer trainer(model, task, {.optimizer = Adam{.lr = 5e-3}});
  while (trainer.steps() < 300) {
    trainer.step();
    if (trainer.steps() % 100 != 0) continue;
    std::cout << trainer.steps() << ": " << 100 * *trainer.evaluate().metric("accuracy") << " % right\n";
  }
  const double right = *evaluate(model, task, HeldOut::test).metric("accuracy");
  std::cout << "test data: " << 100 * right << " % right\n";
  return right >= 0.9 ? 0 : 1;
}
