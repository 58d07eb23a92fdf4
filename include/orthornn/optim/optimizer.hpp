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
#include "orthornn/optim/stiefel_sgd.hpp"

namespace orthornn {

/// Visits the fields that every optimizer has.
template <class Options>
void rate_fields(auto&& visit) {
  visit("weight_decay", &Options::weight_decay, domain::not_negative,
        "Weight decay, of which reflection vectors have none");
  visit("lr", &Options::lr, domain::positive, "Learning rate");
  visit("lr_orthogonal", &Options::lr_orthogonal, domain::not_negative,
        "Learning rate of orthogonal parameters");
}
/// Visits the field "epsilon" of the optimizers that divide by the root of a mean of squares.
template <class Options>
void epsilon_field(auto&& visit) {
  visit("epsilon", &Options::epsilon, domain::positive, "added to the root of the mean of squares, above 0");
}
/// Visits the fields that Adam and AdamW have.
template <class Options>
void adam_fields(auto&& visit) {
  visit("beta1", &Options::beta1, domain::below_one, "share of the mean gradient that a step keeps");
  visit("beta2", &Options::beta2, domain::below_one, "share of the mean of squares that a step keeps");
  epsilon_field<Options>(visit);
  rate_fields<Options>(visit);
}

/// Options of stochastic gradient descent with heavy-ball momentum mu (torch.optim.SGD without dampening).
/// OptimizerOptions explains the letters.
///
///     b <- mu b + (g + lambda theta)
///     theta <- theta - lr b
struct Sgd {
  static constexpr const char* name = "sgd";  ///< Name in files and on the command line.
  /// Learning rate lr of ordinary parameters, above 0.
  double lr = 1e-3;
  /// Learning rate of orthogonal parameters, 0 or more; unset it is lr / 10, and 0 freezes them.
  std::optional<double> lr_orthogonal = std::nullopt;
  /// Momentum mu, 0 to below 1.
  double momentum = 0;
  /// Weight decay lambda of ordinary parameters, 0 or more.
  double weight_decay = 0;

  static void fields(auto&& visit) {
    visit("momentum", &Sgd::momentum, domain::below_one, "momentum, 0 to below 1");
    rate_fields<Sgd>(visit);
  }
};

/// Options of RMSprop (Tieleman and Hinton, "Lecture 6.5: rmsprop", Coursera 2012, as torch.optim.RMSprop,
/// where decay is alpha). OptimizerOptions explains the letters.
///
///     g <- g + lambda theta
///     s <- decay s + (1 - decay) g^2
///     theta <- theta - lr g / (sqrt(s) + epsilon)
struct RmsProp {
  static constexpr const char* name = "rmsprop";  ///< Name in files and on the command line.
  /// Learning rate lr of ordinary parameters, above 0.
  double lr = 1e-3;
  /// Learning rate of orthogonal parameters, 0 or more; unset it is lr / 10, and 0 freezes them.
  std::optional<double> lr_orthogonal = std::nullopt;
  /// Share of the mean of squares that a step keeps, 0 to below 1.
  double decay = 0.99;
  /// Number above 0 that is added to the root of the mean of squares.
  double epsilon = 1e-8;
  /// Weight decay lambda of ordinary parameters, 0 or more.
  double weight_decay = 0;

  static void fields(auto&& visit) {
    visit("decay", &RmsProp::decay, domain::below_one,
          "share of the mean of squares that a step keeps, 0 to below 1");
    epsilon_field<RmsProp>(visit);
    rate_fields<RmsProp>(visit);
  }
};

/// Options of Adam (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1), at
/// step t = 1, 2, ... OptimizerOptions explains the letters.
///
///     g <- g + lambda theta
///     m <- beta1 m + (1 - beta1) g
///     s <- beta2 s + (1 - beta2) g^2
///     theta <- theta - lr (m / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + epsilon)
struct Adam {
  static constexpr const char* name = "adam";  ///< Name in files and on the command line.
  /// Learning rate lr of ordinary parameters, above 0.
  double lr = 1e-3;
  /// Learning rate of orthogonal parameters, 0 or more; unset it is lr / 10, and 0 freezes them.
  std::optional<double> lr_orthogonal = std::nullopt;
  /// Share of the mean gradient m that a step keeps, 0 to below 1.
  double beta1 = 0.9;
  /// Share of the mean of squares s that a step keeps, 0 to below 1.
  double beta2 = 0.999;
  /// Number above 0 that is added to the root of the mean of squares.
  double epsilon = 1e-8;
  /// Weight decay lambda of ordinary parameters, 0 or more.
  double weight_decay = 0;

  static void fields(auto&& visit) { adam_fields<Adam>(visit); }
};

/// Options of AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2,
/// as torch.optim.AdamW): theta <- (1 - lr lambda) theta, then Adam's step without its weight decay.
/// OptimizerOptions explains the letters.
struct AdamW {
  static constexpr const char* name = "adamw";  ///< Name in files and on the command line.
  /// Learning rate lr of ordinary parameters, above 0.
  double lr = 1e-3;
  /// Learning rate of orthogonal parameters, 0 or more; unset it is lr / 10, and 0 freezes them.
  std::optional<double> lr_orthogonal = std::nullopt;
  /// Share of the mean gradient m that a step keeps, 0 to below 1.
  double beta1 = 0.9;
  /// Share of the mean of squares s that a step keeps, 0 to below 1.
  double beta2 = 0.999;
  /// Number above 0 that is added to the root of the mean of squares.
  double epsilon = 1e-8;
  /// Weight decay lambda of ordinary parameters, 0 or more.
  double weight_decay = 1e-2;

  static void fields(auto&& visit) { adam_fields<AdamW>(visit); }
};

/// Visits the fields of Riemannian optimizers.
template <class Options>
void stiefel_fields(auto&& visit) {
  visit("metric", &Options::metric, domain::any, "metric of the Stiefel manifold: canonical or euclidean");
  visit("retraction", &Options::retraction, domain::any, "how a step stays on the manifold: qr or cayley");
}

/// Options of Riemannian gradient descent with momentum mu (docs/math.md, section 11.3). A point Omega of a
/// Stiefel manifold goes along the Riemannian gradient Z of StiefelSgd; the momentum of the step before is
/// projected on the tangent space at Omega. Other parameters have the steps of Sgd.
///
///     B <- mu P(B) + Z,  P(B) = B - Omega (Omega^T B + B^T Omega) / 2
///     Omega <- retraction of Omega along -lr B
struct Rgd {
  static constexpr const char* name = "rgd";  ///< Name in files and on the command line.
  /// Metric of the Riemannian gradient.
  StiefelSgd::Metric metric = StiefelSgd::Metric::canonical;
  /// How a step stays on the manifold.
  StiefelSgd::Retraction retraction = StiefelSgd::Retraction::qr;
  /// Learning rate lr of ordinary parameters, above 0.
  double lr = 1e-3;
  /// Learning rate of orthogonal parameters and of points of a Stiefel manifold, 0 or more; unset it is
  /// lr / 10, and 0 freezes them.
  std::optional<double> lr_orthogonal = std::nullopt;
  /// Momentum mu, 0 to below 1.
  double momentum = 0;
  /// Weight decay lambda of ordinary parameters, 0 or more.
  double weight_decay = 0;

  static void fields(auto&& visit) {
    stiefel_fields<Rgd>(visit);
    visit("momentum", &Rgd::momentum, domain::below_one, "momentum, 0 to below 1");
    rate_fields<Rgd>(visit);
  }
};

/// Options of Adam on Riemannian manifolds (Becigneul and Ganea, "Riemannian adaptive optimization methods",
/// ICLR 2019; docs/math.md, section 11.3), at step t = 1, 2, ... The second moment is one number for each
/// matrix, the mean of squares of its entries, so that a step stays tangent. Other parameters have the steps
/// of Adam.
///
///     M <- beta1 P(M) + (1 - beta1) Z,  P as for Rgd
///     s <- beta2 s + (1 - beta2) |Z|^2 / (number of entries)
///     Omega <- retraction of Omega along -lr (M / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + epsilon)
struct RgdAdam {
  static constexpr const char* name = "rgd-adam";  ///< Name in files and on the command line.
  /// Metric of the Riemannian gradient.
  StiefelSgd::Metric metric = StiefelSgd::Metric::canonical;
  /// How a step stays on the manifold.
  StiefelSgd::Retraction retraction = StiefelSgd::Retraction::qr;
  /// Learning rate lr of ordinary parameters, above 0.
  double lr = 1e-3;
  /// Learning rate of orthogonal parameters and of points of a Stiefel manifold, 0 or more; unset it is
  /// lr / 10, and 0 freezes them.
  std::optional<double> lr_orthogonal = std::nullopt;
  /// Share of the mean gradient that a step keeps, 0 to below 1.
  double beta1 = 0.9;
  /// Share of the mean of squares s that a step keeps, 0 to below 1.
  double beta2 = 0.999;
  /// Number above 0 that is added to the root of the mean of squares.
  double epsilon = 1e-8;
  /// Weight decay lambda of ordinary parameters, 0 or more.
  double weight_decay = 0;

  static void fields(auto&& visit) {
    stiefel_fields<RgdAdam>(visit);
    adam_fields<RgdAdam>(visit);
  }
};

/// Options of any optimizer, with PyTorch's formulas and meanings. In all formulas, theta is a parameter, g
/// its gradient, lr the learning rate of its ParameterKind times the schedule's factor, and lambda the weight
/// decay. Orthogonal parameters have no weight decay: the length of a reflection vector does not change Q,
/// and only weight decay would shrink it. Their default rate is lr / 10, because orthogonal transitions that
/// learn as fast as the other weights fail to learn at all (the copying task with modrelu). Points of a
/// Stiefel manifold (ParameterKind::stiefel) need Rgd or RgdAdam.
using OptimizerOptions = std::variant<Sgd, RmsProp, Adam, AdamW, Rgd, RgdAdam>;

/// How one step of an optimizer is taken.
struct Update {
  /// Factor of the learning rates, 0 or more.
  double schedule_factor = 1;
  /// Factor of the gradients (GradientScale::factor), [1], on the device of the parameters; empty for 1.
  TensorView<const double> gradient_scale = {};
  /// Switch of the step, [1], on the device of the parameters; empty for 0. Where it is not 0 when the step
  /// reads it, the step counts and changes nothing.
  TensorView<const std::int64_t> halted = {};
};

template <class T>
class StiefelUpdate;

/// Changes the parameters of one set by their gradients. Its moments have the layout of the set's flat
/// buffer.
// To add one: options above and in the variant, its formula in orthornn/scalar/update_rules.hpp, overloads of
// `moments_of` and `rule_of` in the source file, and a line in cuda/optim/optimizer.cu.
template <class T>
class Optimizer {
 public:
  /// Makes the optimizer that the options name, with moments of zero. Throws as `make_optimizer`.
  Optimizer(const OptimizerOptions& options, const ParameterSet<T>& parameters);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  ~Optimizer();

  /// Name of the optimizer, such as "sgd".
  std::string name() const { return name_of(options_); }

  /// Updates parameters.values() by parameters.gradients(). Allocates nothing; the result does not depend on
  /// the number of threads. On a GPU it only starts the work. Throws ShapeError for a set of another size
  /// than the optimizer was made for, DeviceError for an `update` on another device, and ValueError unless
  /// the schedule's factor is finite and not negative; nothing has changed then.
  void step(ParameterSet<T>& parameters, const Update& update = {});

  /// Names and views of the moments, each [parameters.count()]. To go on from a checkpoint with equal bits,
  /// write the moments into the views and call `set_steps`. The views live as long as the optimizer.
  std::vector<std::pair<std::string, TensorView<T>>> state();
  /// Number of steps taken so far; Adam's bias correction depends on it.
  std::int64_t steps() const { return steps_; }
  /// Sets the number of steps taken so far. Throws ValueError for a negative number.
  void set_steps(std::int64_t steps);

 private:
  /// Elements first to last - 1 of the flat buffers, all of one kind, which is not `stiefel`.
  struct Piece {
    Index first, last;
    ParameterKind kind;
  };
  /// A tensor [count] that is kept from step to step, with its name in files.
  struct Moment {
    std::string name;
    Tensor<T> values;
  };

  /// Calls rule(value, gradient, moment..) for all numbers, with the rule of their kind.
  template <class Rule, class... Moments>
  void apply(const Rule& ordinary, const Rule& orthogonal, ParameterSet<T>& parameters, const Update& update,
             Moments*... moments) const;
  /// Moves the points of Stiefel manifolds, with the rule in double.
  template <class Rule>
  void step_points(const Rule& rule, ParameterSet<T>& parameters, const Update& update);

  OptimizerOptions options_;
  Index count_;
  Device device_;
  /// The buffer in order. Where it is cut follows from the parameters alone, never from the threads.
  std::vector<Piece> pieces_;
  /// On a GPU alone, [count]: the ParameterKind of each number.
  Tensor<std::uint8_t> kinds_;
  /// The points of Stiefel manifolds.
  std::vector<std::unique_ptr<StiefelUpdate<T>>> points_;
  std::vector<Moment> moments_;
  std::int64_t steps_ = 0;
};

extern template class Optimizer<float>;
extern template class Optimizer<double>;

/// Makes the optimizer that the options name, with moments of zero. Throws ValueError for a set without
/// memory, for an option that is outside its domain or leaves it when it is rounded to T, whose name and
/// value the message has, and for points of a Stiefel manifold where the optimizer is not Riemannian;
/// ShapeError where such a point is no matrix [N, M] with N >= M >= 1.
template <class T>
std::unique_ptr<Optimizer<T>> make_optimizer(const OptimizerOptions& options,
                                             const ParameterSet<T>& parameters) {
  return std::make_unique<Optimizer<T>>(options, parameters);
}

}  // namespace orthornn
