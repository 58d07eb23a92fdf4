// A program's own task: all cards of a deck but one are shown, one after the other. Which one is missing?
#include <algorithm>
#include <cmath>
#include <iostream>
#include <orthornn/orthornn.hpp>
using namespace orthornn;

class MissingCard final : public Task {
 public:
  std::string name() const override { return "missing-card"; }
  std::string config() const override { return R"({"task": "missing-card", "cards": 12})"; }
  SequenceData data() const override { return {.symbols = cards, .classes = cards}; }
  Index batch_size() const override { return batch; }
  std::uint64_t seed() const override { return 1; }
  Index length() const override { return cards - 1; }
  double baseline_loss() const override { return std::log(cards); }
  bool solved(const Evaluation& found) const override { return found.metric("accuracy") >= 0.99; }
  void training_batch(std::uint64_t step, Batch& to) const override {
    deal(RandomPurpose::training, step, to);
  }
  Index evaluation_batches(HeldOut) const override { return 10; }
  void evaluation_batch(HeldOut set, Index number, Batch& to) const override {
    deal(set == HeldOut::test ? RandomPurpose::test : RandomPurpose::validation, number, to);
  }
  std::vector<Metric> metrics() const override { return {Metric::accuracy()}; }
  void count_metrics(ConstTensorView<float> y, const Batch& of, TensorView<double> sums) const override {
    for (Index b = 0; b < batch; ++b) {
      const TensorView<const float> logits = y[b];
      const Index answer = std::max_element(logits.begin(), logits.end()) - logits.begin();
      sums(0, 0) += answer == of.integers(batch_names::classes)(b);  // how many are right
      sums(0, 1) += 1;                                               // of how many
    }
  }

 private:
  static constexpr Index cards = 12, batch = 64;
  // A batch depends on its purpose and number alone. It is made in host memory: the model must be on the CPU.
  void deal(RandomPurpose purpose, std::uint64_t number, Batch& to) const {
    to.integers(batch_names::symbols).reserve({length(), batch});  // [T, B]
    to.integers(batch_names::classes).reserve({batch});            // [B], one answer for each sequence
    for (Index b = 0; b < batch; ++b) {
      const auto deck = random_permutation(cards, RandomStream(seed(), purpose, number * batch + b));
      for (Index t = 0; t < length(); ++t) to.integers(batch_names::symbols)(t, b) = deck(t);
      to.integers(batch_names::classes)(b) = deck(cards - 1);
    }
  }
};

int main() {
  const MissingCard task;
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {OrthogonalCell{.hidden_size = 64}}));
  Trainer trainer(model, task, {.optimizer = Adam{.lr = 5e-3}});
  while (trainer.steps() < 500) {
    trainer.step();
    if (trainer.steps() % 100 != 0) continue;
    std::cout << trainer.steps() << ": " << 100 * *trainer.evaluate().metric("accuracy") << " % right\n";
  }
  return task.solved(evaluate(model, task, HeldOut::test)) ? 0 : 1;
}
