// A program's own layer, y = g x with a learned g for each entry (LayerScale: Touvron et al., ICCV 2021). It
// is registered by its name, trained within a residual layer, saved, loaded and resumed.
#include <algorithm>
#include <iostream>
#include <orthornn/orthornn.hpp>
using namespace orthornn;

struct Scale {
  static constexpr const char* name = "scale";  // in model files
  template <class T>
  struct Layer;
  double start = 1;
  static void fields(auto&& visit) { visit("start", &Scale::start, domain::positive, "g before training"); }
};
template <class T>
struct Scale::Layer final : orthornn::Layer<T> {
  Layer(ParameterSet<T>& set, const std::string& prefix, const Scale& scale, Index n)
      : orthornn::Layer<T>(set, n, n), start_(scale.start), g_(set.add(prefix + "/g", {n})) {
    this->parameters_added();
  }
  void initialize(std::uint64_t) override { std::ranges::fill(this->parameters_.value(g_), T(start_)); }
  LayerDescription describe(Index, Index) const override { return {.kind = Scale::name}; }
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T>, States<T>,
                                  Saved& saved) const override {
    const TensorView<const T> x = input.vectors, g = this->value(g_);  // [T, B, N] and [N]
    const TensorView<T> y = saved.push<T>(x.shape());
    for (Index i = 0; i < x.size(); ++i) y.data()[i] = g(i % g.size()) * x.data()[i];
    return y;
  }
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& to, bool, Saved&,
                    Saved&) const override {
    const TensorView<const T> x = input.vectors, g = this->value(g_), d_y = to.d_output;
    const TensorView<T> d_x = to.d_input, d_g = this->gradient(g_);  // d_x is empty where it is not wanted
    if (to.input == Gradients::overwrite) std::ranges::fill(d_x, T{0});
    for (Index i = 0; i < d_x.size(); ++i) d_x.data()[i] += g(i % g.size()) * d_y.data()[i];
    std::ranges::fill(d_g, T{0});
    for (Index i = 0; i < x.size(); ++i) d_g(i % g.size()) += x.data()[i] * d_y.data()[i];
  }
  double start_;
  Index g_;
};

int main() {
  register_layer<Scale>();
  const CopyingTask task({.delay = 10, .batch = 32});
  const LayerOptions scaled = Residual{{Linear{48}, Scale{0.5}}};
  SequenceModel<float> model(Device::cpu(), model_for(task.data(), {OrthogonalCell{48}, scaled}));
  Trainer trainer(model, task, {.optimizer = Adam{.lr = 5e-3}});
  while (trainer.steps() < 200) trainer.step();
  save_checkpoint("own_layer.h5", trainer);
  const auto loaded = load_model("own_layer.h5");
  Trainer resumed(*loaded, task, trainer.options());
  restore("own_layer.h5", resumed);
  for (int i = 0; i < 200; ++i) trainer.step(), resumed.step();
  const bool same = std::ranges::equal(model.parameters().values(), loaded->parameters().values());
  const double loss = resumed.evaluate().loss;
  std::cout << "loss " << loss << " (guesser " << task.baseline_loss() << ")\nThe resumed training has "
            << (same ? "the same" : "other") << " bits.\n";
  return same && loss < task.baseline_loss() / 10 ? 0 : 1;
}
