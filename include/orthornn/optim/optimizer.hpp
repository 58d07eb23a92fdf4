#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "orthornn/core/fields.hpp"
#include "orthornn/core/parameters.hpp"

namespace orthornn {

// Options of the optimizers, with PyTorch's formulas and meanings. Everywhere: theta a parameter, g its
// gradient, lr the learning rate of its kind times the schedule's factor, lambda the weight decay, which is 0
// for orthogonal parameters (a reflection vector's length means nothing, and only weight decay would shrink
// it). `lr_orthogonal` is the rate of ParameterKind::orthogonal; unset it is lr / 10, because orthogonal
// transitions that learn as fast as the other weights fail to learn at all (the copying task, modrelu); 0
// freezes them.

/// Fields that every optimizer has.
template <class Options>
void rate_fields(auto&& visit) {
  visit("weight_decay", &Options::weight_decay, domain::not_negative,
        "Weight decay, of which reflection vectors have none");
  visit("lr", &Options::lr, domain::positive, "Learning rate");
  visit("lr_orthogonal", &Options::lr_orthogonal, domain::not_negative,
        "Learning rate of orthogonal parameters");
}
/// The field of those that divide by the root of a mean of squares.
template <class Options>
void epsilon_field(auto&& visit) {
  visit("epsilon", &Options::epsilon, domain::positive, "added to the root of the mean of squares, above 0");
}
/// Fields that Adam and AdamW have.
template <class Options>
void adam_fields(auto&& visit) {
  visit("beta1", &Options::beta1, domain::below_one, "share of the mean gradient that a step keeps");
  visit("beta2", &Options::beta2, domain::below_one, "share of the mean of squares that a step keeps");
  epsilon_field<Options>(visit);
  rate_fields<Options>(visit);
}

/// Stochastic gradient descent with heavy-ball momentum mu (torch.optim.SGD without dampening):
/// b <- mu b + (g + lambda theta);  theta <- theta - lr b.
struct Sgd {
  static constexpr const char* name = "sgd";
  double lr = 1e-3;
  std::optional<double> lr_orthogonal = std::nullopt;
  double momentum = 0;
  double weight_decay = 0;

  static void fields(auto&& visit) {
    visit("momentum", &Sgd::momentum, domain::below_one, "momentum, 0 to below 1");
    rate_fields<Sgd>(visit);
  }
};

/// Tieleman and Hinton, "Lecture 6.5: rmsprop", Coursera 2012, as torch.optim.RMSprop (there decay is alpha):
/// g <- g + lambda theta;  s <- decay s + (1 - decay) g^2;
/// theta <- theta - lr g / (sqrt(s) + epsilon).
struct RmsProp {
  static constexpr const char* name = "rmsprop";
  double lr = 1e-3;
  std::optional<double> lr_orthogonal = std::nullopt;
  double decay = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0;

  static void fields(auto&& visit) {
    visit("decay", &RmsProp::decay, domain::below_one,
          "share of the mean of squares that a step keeps, 0 to below 1");
    epsilon_field<RmsProp>(visit);
    rate_fields<RmsProp>(visit);
  }
};

/// Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1, at step t = 1, 2, ..:
/// g <- g + lambda theta;  m <- beta1 m + (1 - beta1) g;  s <- beta2 s + (1 - beta2) g^2;
/// theta <- theta - lr (m / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + epsilon).
struct Adam {
  static constexpr const char* name = "adam";
  double lr = 1e-3;
  std::optional<double> lr_orthogonal = std::nullopt;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;

  static void fields(auto&& visit) { adam_fields<Adam>(visit); }
};

/// Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2,
/// as torch.optim.AdamW: theta <- (1 - lr lambda) theta, then Adam's step without its weight decay.
struct AdamW {
  static constexpr const char* name = "adamw";
  double lr = 1e-3;
  std::optional<double> lr_orthogonal = std::nullopt;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;

  static void fields(auto&& visit) { adam_fields<AdamW>(visit); }
};

using OptimizerOptions = std::variant<Sgd, RmsProp, Adam, AdamW>;

/// How one step of an optimizer is taken.
struct Update {
  /// Of the learning rates.
  double schedule_factor = 1;
  /// [1], by which gradients are multiplied when they are read (GradientScale::factor); empty: 1. On the
  /// device of the parameters, as `halted` is.
  TensorView<const double> gradient_scale = {};
  /// [1]; where it is not 0 when the step comes to it, the step counts and changes nothing.
  TensorView<const std::int64_t> halted = {};
};

/// Changes the parameters of one set by their gradients. Its moments have the layout of the set's flat
/// buffer. To add one: options above and in the variant, its formula in orthornn/scalar/update_rules.hpp, a
/// class and a `make` in the source file, and a line in cuda/optim/optimizer.cu.
template <class T>
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// "sgd", "rmsprop", "adam" or "adamw".
  virtual std::string name() const = 0;

  /// Reads parameters.gradients(), updates parameters.values(); allocates nothing, and the result does not
  /// depend on the number of threads. Throws ShapeError for a set of another size than that it was made for,
  /// ValueError unless the schedule's factor is finite and not negative; then nothing has changed. On a GPU
  /// it only starts the work.
  void step(ParameterSet<T>& parameters, const Update& update = {});

  /// Named moments, each [parameters.count()]; write into the views, and call `set_steps`, to go on from a
  /// checkpoint with the same bits. The views live as long as the optimizer.
  virtual std::vector<std::pair<std::string, TensorView<T>>> state() = 0;
  /// Steps taken so far; Adam's bias correction depends on it.
  std::int64_t steps() const { return steps_; }
  /// Throws ValueError for a negative number.
  void set_steps(std::int64_t steps);

 protected:
  /// Elements first .. last - 1 of the flat buffers, all of one kind.
  struct Piece {
    Index first;
    Index last;
    ParameterKind kind;
  };

  struct Step {
    T* values;
    const T* gradients;
    Update update;
  };

  explicit Optimizer(const ParameterSet<T>& parameters);
  /// Zeros of the layout, and on the device, of the flat buffer.
  Tensor<T> moment() const { return Tensor<T>(Shape{count_}, device_); }
  /// rule(value, gradient, moment..) for all numbers, with the rule that make_rule(kind) gives for theirs.
  template <class MakeRule, class... Moments>
  void apply(const MakeRule& make_rule, const Step& step, Moments*... moments) const;

 private:
  /// One step, which `steps()` counts already.
  virtual void take(const Step& step) = 0;

  Index count_;
  Device device_;
  /// The whole buffer in order. Where it is cut follows from the parameters alone, never from the threads.
  std::vector<Piece> pieces_;
  /// On a GPU alone, [count]: 1 for ParameterKind::orthogonal.
  Tensor<std::uint8_t> is_orthogonal_;
  std::int64_t steps_ = 0;
};

/// The optimizer that the options name, its moments at zero. Throws ValueError, naming the option and its
/// value, for one outside its field's domain, also where it leaves it only when it is rounded to T; and for a
/// set that has not been allocated.
template <class T>
std::unique_ptr<Optimizer<T>> make_optimizer(const OptimizerOptions& options,
                                             const ParameterSet<T>& parameters);

extern template class Optimizer<float>;
extern template class Optimizer<double>;

}  // namespace orthornn
