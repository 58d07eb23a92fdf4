// A program's own model: trained, saved and resumed. An orthogonal network and an LSTM read the same symbols
// side by side, and the answer is the sum of their outputs.
#include <algorithm>
#include <iostream>
#include <orthornn/orthornn.hpp>
using namespace orthornn;

class SideBySide final : public Model<float> {
 public:
  SideBySide(Index symbols, Index classes)
      : Model<float>(Device::cpu(), /*draws=*/false),
        left_(make_stack<float>(parameters_, "left", {OrthogonalCell{48}, Linear{classes}}, symbols)),
        right_(make_stack<float>(parameters_, "right", {Lstm{16}, Linear{classes}}, symbols)) {
    parameters_.allocate(device());  // after the layers have added theirs
    for (Layer<float>* layer : {left_.get(), right_.get()}) layer->initialize(/*seed=*/1);
  }
  std::string options_text() const override { return R"({"kind": "side-by-side", "sizes": [48, 16]})"; }
  bool recordable(const Batch&) const override { return false; }
  std::vector<LayerDescription> describe(Index, Index) const override { return {}; }
  std::optional<double> orthogonality_error() override { return left_->orthogonality_error(); }

 private:
  void run_prepare() override {
    left_->prepare();
    right_->prepare();
  }
  void run(const Batch& batch, bool gradient) override {
    const SequenceInput<float> input{.symbols = batch.needed_integers(batch_names::symbols)};
    saved_.clear();
    const auto left = left_->forward(input, {}, {}, saved_), right = right_->forward(input, {}, {}, saved_);
    logits_.resize(left.shape());
    for (Index i = 0; i < left.size(); ++i) logits_.data()[i] = left.data()[i] + right.data()[i];
    outputs_ = logits_;  // where the loss leaves its gradient
    softmax_cross_entropy<float>(outputs_, batch.needed_integers(batch_names::classes), {}, loss_, gradient);
    if (!gradient) return;
    d_right_.reserve(logits_.shape());
    copy<float>(logits_, d_right_);  // a backward writes over its d_output
    right_->backward(input, {.d_output = d_right_}, saved_, scratch_);
    left_->backward(input, {.d_output = logits_}, saved_, scratch_);
  }
  std::unique_ptr<Layer<float>> left_, right_;
  Tensor<float> logits_, d_right_;
  Saved saved_{Device::cpu()}, scratch_{Device::cpu()};
};

int main() {
  const CopyingTask task({.delay = 10, .batch = 32});
  SideBySide model(task.symbols(), task.classes()), other(task.symbols(), task.classes());
  Trainer trainer(model, task, {.optimizer = Adam{.lr = 5e-3}}), resumed(other, task, trainer.options());
  while (trainer.steps() < 200) trainer.step();
  save_checkpoint("own_model.h5", trainer);
  restore("own_model.h5", resumed);
  for (Trainer* each : {&trainer, &resumed}) {
    while (each->steps() < 400) each->step();
    std::cout << "loss " << each->evaluate().loss << " (guesser " << task.baseline_loss() << ")\n";
  }
  const bool same = std::ranges::equal(model.parameters().values(), other.parameters().values());
  std::cout << "The resumed training has " << (same ? "the same" : "other") << " bits.\n";
  return same && resumed.best()->loss < task.baseline_loss() / 10 ? 0 : 1;
}
