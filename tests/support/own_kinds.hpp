#pragma once
// Kinds that a program might have beside those of orthornn.

#include <cmath>
#include <optional>
#include <string>

#include "orthornn/layers/layer_options.hpp"

namespace orthornn::testing {

enum class Sign { plus, minus };

}  // namespace orthornn::testing

namespace orthornn {

template <>
struct Names<testing::Sign> {
  using enum testing::Sign;
  static constexpr Choice<testing::Sign> list[] = {{"plus", plus}, {"minus", minus}};
};

}  // namespace orthornn

namespace orthornn::testing {

/// y = [g x; g x; ..], so many copies of it, with a learned g for each entry. It has fields of every type. On
/// the CPU.
struct Spread {
  static constexpr const char* name = "spread";
  template <class T>
  class Layer;
  Index copies = 2;
  std::uint64_t seed = 1;
  double start = 0.75;
  bool negated = false;
  Sign sign = Sign::plus;
  std::string note = "none";
  std::optional<double> limit = {};

  static void fields(auto&& visit) {
    visit("copies", &Spread::copies, domain::count, "How often an output has each input");
    visit("seed", &Spread::seed, domain::any, "A large number");
    visit("start", &Spread::start, domain::below_one, "g before training");
    visit("negated", &Spread::negated, domain::any, "Whether g begins below 0");
    visit("sign", &Spread::sign, domain::any, "plus or minus");
    visit("note", &Spread::note, domain::any, "A text");
    visit("limit", &Spread::limit, domain::positive, "May be missing");
  }
  Index output_size(Index input_size) const { return copies * input_size; }
};

template <class T>
class Spread::Layer : public orthornn::Layer<T> {
 public:
  Layer(ParameterSet<T>& parameters, const std::string& prefix, const Spread& options, Index size)
      : orthornn::Layer<T>(parameters, size, options.output_size(size)),
        options_(options),
        g_(parameters.add(prefix + "/g", {size})) {
    this->parameters_added();
  }
  void initialize(std::uint64_t) override {
    for (T& g : this->parameters_.value(g_))
      g = static_cast<T>(options_.negated ? -options_.start : options_.start);
  }
  LayerDescription describe(Index, Index) const override { return {.kind = Spread::name}; }

 private:
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T>, States<T>,
                                  Saved& saved) const override {
    const TensorView<const T> x = input.vectors, g = this->value(g_);
    const TensorView<T> y = saved.push<T>({input.length(), input.batch(), this->output_size()});
    for (Index i = 0; i < y.size(); ++i) y.data()[i] = g(i % g.size()) * x.data()[place_of(i)];
    return y;
  }
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool, Saved&,
                    Saved&) const override {
    const TensorView<const T> x = input.vectors, g = this->value(g_);
    const TensorView<T> d_g = this->gradient(g_), d_x = arguments.d_input, d_y = arguments.d_output;
    for (T& d : d_g) d = 0;
    if (arguments.input == Gradients::overwrite)
      for (T& d : d_x) d = 0;
    for (Index i = 0; i < d_y.size(); ++i) {
      d_g(i % g.size()) += x.data()[place_of(i)] * d_y.data()[i];
      if (!d_x.empty()) d_x.data()[place_of(i)] += g(i % g.size()) * d_y.data()[i];
    }
  }
  /// Where in x the number i of y comes from.
  Index place_of(Index i) const {
    return i / this->output_size() * this->input_size() + i % this->input_size();
  }

  Spread options_;
  Index g_;
};

/// A layer of which a model would think that it reads symbols, is a recurrence and draws noise.
struct Traits : Spread {
  static constexpr const char* name = "traits";
  static constexpr LayerTraits traits{.reads_symbols = true, .is_recurrence = true, .draws_noise = true};
};

/// Q turns pairs of entries by learned angles, from `largest` downwards at first. On the CPU.
struct Turns {
  static constexpr const char* name = "turns";
  double largest = 3;

  static void fields(auto&& visit) { visit("largest", &Turns::largest, domain::positive, "First angle"); }
  Parameter parameter(Index hidden_size) const {
    if (hidden_size % 2 != 0) throw ValueError("turns: an odd hidden size; expected an even one");
    return {"angles", {hidden_size / 2}, ParameterKind::orthogonal, 0};
  }
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution&) const {
    return dense_parts<T>(std::make_unique<Matrix<T>>(largest, hidden_size));
  }

 private:
  template <class T>
  class Matrix final : public Parametrization<T> {
   public:
    Matrix(double largest, Index n) : largest_(largest), q_({n, n}) {}
    TensorView<const T> q() const { return q_; }
    void draw(std::uint64_t seed, TensorView<T> angles) const override {
      for (Index i = 0; i < angles.size(); ++i)
        angles(i) = static_cast<T>(largest_ / static_cast<double>(i + static_cast<Index>(seed % 2) + 1));
    }
    void prepare(ConstTensorView<T> angles) override {
      for (Index i = 0, k = 0; i < angles.size(); ++i, k += 2) {
        q_(k, k) = q_(k + 1, k + 1) = std::cos(angles(i));
        q_(k + 1, k) = std::sin(angles(i));
        q_(k, k + 1) = -q_(k + 1, k);
      }
    }
    void backward(const Factors<T>& gradient, TensorView<T> d_angles) override {
      const TensorView<const T> d = gradient.q;
      for (Index i = 0, k = 0; i < d_angles.size(); ++i, k += 2)
        d_angles(i) = q_(k, k) * (d(k + 1, k) - d(k, k + 1)) - q_(k + 1, k) * (d(k, k) + d(k + 1, k + 1));
    }

   private:
    double largest_;
    Tensor<T> q_;
  };
};

inline void register_own_kinds() {
  register_layer<Spread>();
  register_layer<Traits>();
  register_transition<Turns>();
}

}  // namespace orthornn::testing
