// A program's own parametrization: Q turns pairs of entries of the state by learned angles. It is registered
// by its name, trained, saved, loaded and resumed.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <orthornn/orthornn.hpp>
using namespace orthornn;

template <class T>
struct PairTurns final : Parametrization<T> {
  explicit PairTurns(Index n) : q_({n, n}) {}
  TensorView<const T> q() const { return q_; }
  void draw(std::uint64_t seed, TensorView<T> angles) const override {
    RandomStream random(seed, RandomPurpose::initialization);
    for (T& angle : angles) angle = static_cast<T>(random.uniform(-3.14, 3.14));
  }
  void prepare(ConstTensorView<T> angles) override {
    for (Index i = 0, k = 0; i < angles.size(); ++i, k += 2) {
      q_(k, k) = q_(k + 1, k + 1) = std::cos(angles(i));
      q_(k, k + 1) = -(q_(k + 1, k) = std::sin(angles(i)));
    }
  }
  void backward(const Factors<T>& gradient, TensorView<T> d_angles) override {
    const TensorView<const T> d = gradient.q;  // [N, N]
    for (Index i = 0, k = 0; i < d_angles.size(); ++i, k += 2)
      d_angles(i) = q_(k, k) * (d(k + 1, k) - d(k, k + 1)) - q_(k + 1, k) * (d(k, k) + d(k + 1, k + 1));
  }
  Tensor<T> q_;
};
struct Turns {
  static constexpr const char* name = "turns";  // in model files
  static void fields(auto&&) {}
  Parameter parameter(Index n) const {
    if (n % 2 != 0) throw ValueError("turns: an odd hidden size; expected an even one");
    return {"angles", {n / 2}, ParameterKind::orthogonal, 0};
  }
  template <class T>
  TransitionParts<T> parts(Index n, const Execution&) const {
    return dense_parts<T>(std::make_unique<PairTurns<T>>(n));
  }
};

int main() {
  register_transition<Turns>();
  const CopyingTask task({.delay = 10, .batch = 32});
  const OrthogonalCell cell{.hidden_size = 64, .transition = Turns{}};
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {cell}));
  Trainer trainer(model, task, {.optimizer = Adam{.lr = 5e-3}});
  while (trainer.steps() < 200) trainer.step();
  save_checkpoint("own_parametrization.h5", trainer);
  const auto loaded = load_model("own_parametrization.h5");
  Trainer resumed(*loaded, task, trainer.options());
  restore("own_parametrization.h5", resumed);
  for (int i = 0; i < 200; ++i) trainer.step(), resumed.step();
  const bool same = std::ranges::equal(model.parameters().values(), loaded->parameters().values());
  std::cout << "loss " << resumed.evaluate().loss << " (guesser " << task.baseline_loss()
            << ")\nThe resumed training has " << (same ? "the same" : "other") << " bits.\n";
  return same && resumed.best()->loss < task.baseline_loss() / 10 ? 0 : 1;
}
