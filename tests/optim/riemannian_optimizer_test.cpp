// Rgd and RgdAdam on points of Stiefel manifolds, beside other parameters.

#include <Eigen/Dense>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "linalg/decompositions.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/linalg/orthogonality.hpp"
#include "orthornn/optim/optimizer.hpp"
#include "orthornn/orthogonal/stiefel_point.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/eigen_matrix.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

using Metric = StiefelSgd::Metric;
using Retraction = StiefelSgd::Retraction;

/// Each metric with each retraction, without momentum, with momentum, and by Adam.
std::vector<OptimizerOptions> every_riemannian(double lr, double epsilon = 1e-8) {
  std::vector<OptimizerOptions> all;
  for (const Metric metric : {Metric::canonical, Metric::euclidean}) {
    for (const Retraction retraction : {Retraction::qr, Retraction::cayley}) {
      for (const double momentum : {0.0, 0.9}) {
        all.emplace_back(Rgd{.metric = metric,
                             .retraction = retraction,
                             .lr = 0.01,
                             .lr_orthogonal = lr,
                             .momentum = momentum,
                             .weight_decay = 0.1});
      }
      all.emplace_back(RgdAdam{.metric = metric,
                               .retraction = retraction,
                               .lr = 0.01,
                               .lr_orthogonal = lr,
                               .beta1 = 0.8,
                               .beta2 = 0.95,
                               .epsilon = epsilon,
                               .weight_decay = 0.1});
    }
  }
  return all;
}

/// Two points between parameters of the other kinds.
template <class T>
ParameterSet<T> make_set(Device device = Device::cpu()) {
  ParameterSet<T> set;
  set.add("bias", Shape{5});
  set.add("tall", Shape{40, 12}, ParameterKind::stiefel);
  set.add("vectors", Shape{3, 7}, ParameterKind::orthogonal);
  set.add("square", Shape{9, 9}, ParameterKind::stiefel);
  set.add("last", Shape{4});
  set.allocate(device);
  copy<T>(normal_tensor<T>(set.values().shape(), 1), set.values());
  for (const Index i : {1, 3}) {
    const Shape& shape = set.list()[static_cast<std::size_t>(i)].shape;
    make_stiefel_point<T>(StiefelKind::matrix, shape[0], shape[1])->initialize(2, set.value(i));
  }
  return set;
}

template <class T>
void draw_gradients(ParameterSet<T>& set, std::uint64_t seed) {
  copy<T>(normal_tensor<T>(set.gradients().shape(), 100 + seed), set.gradients());
}

// docs/math.md, sections 2.2 and 11.3, with N x N matrices.

Eigen::MatrixXd projected(const Eigen::MatrixXd& omega, const Eigen::MatrixXd& b) {
  return b - omega * (omega.transpose() * b + b.transpose() * omega) / 2;
}

Eigen::MatrixXd riemannian_gradient(Metric metric, const Eigen::MatrixXd& omega, const Eigen::MatrixXd& g) {
  return metric == Metric::euclidean ? projected(omega, g) : g - omega * g.transpose() * omega;
}

/// From omega along -b.
Eigen::MatrixXd retracted(Retraction retraction, const Eigen::MatrixXd& omega, const Eigen::MatrixXd& b) {
  const Index n = omega.rows(), m = omega.cols();
  if (retraction == Retraction::qr) {
    const Eigen::HouseholderQR<Eigen::MatrixXd> qr(omega - b);
    Eigen::MatrixXd q = qr.householderQ() * Eigen::MatrixXd::Identity(n, m);
    for (Index j = 0; j < m; ++j) q.col(j) *= qr.matrixQR()(j, j) < 0 ? -1 : 1;
    return q;
  }
  const Eigen::MatrixXd identity = Eigen::MatrixXd::Identity(n, n);
  const Eigen::MatrixXd half = (identity - omega * omega.transpose() / 2) * b * omega.transpose();
  const Eigen::MatrixXd a = half - half.transpose();
  return (identity + a / 2).lu().solve((identity - a / 2) * omega);
}

/// One point through so many steps.
struct Followed {
  Eigen::MatrixXd omega, moment = Eigen::MatrixXd::Zero(omega.rows(), omega.cols());
  double square = 0;

  void step(const Rgd& o, const Eigen::MatrixXd& g, double factor, int) {
    moment = o.momentum * projected(omega, moment) + riemannian_gradient(o.metric, omega, g);
    omega = retracted(o.retraction, omega, *o.lr_orthogonal * factor * moment);
  }
  void step(const RgdAdam& o, const Eigen::MatrixXd& g, double factor, int number) {
    const Eigen::MatrixXd z = riemannian_gradient(o.metric, omega, g);
    moment = o.beta1 * projected(omega, moment) + (1 - o.beta1) * z;
    square = o.beta2 * square + (1 - o.beta2) * z.squaredNorm() / static_cast<double>(z.size());
    const double root = std::sqrt(square / (1 - std::pow(o.beta2, number))) + o.epsilon;
    const double rate = *o.lr_orthogonal * factor / (1 - std::pow(o.beta1, number));
    omega = retracted(o.retraction, omega, rate / root * moment);
  }
  void step(const auto&, const Eigen::MatrixXd&, double, int) { FAIL("no Riemannian optimizer"); }
};

Tensor<double> copied(TensorView<const double> view) {
  Tensor<double> result(view.shape());
  copy<double>(view, result);
  return result;
}

TEST_CASE("Riemannian steps in double are the formulas", "[optimizer][stiefel]") {
  const double factors[] = {0.5, 1, 0.7, 0, 1, 0.2};
  Tensor<double> scale(Shape{1});
  scale(0) = 0.25;
  for (const OptimizerOptions& options : every_riemannian(0.3, 0.5)) {
    ParameterSet<double> set = make_set<double>();
    const auto optimizer = make_optimizer(options, set);
    std::vector<Followed> points = {{matrix_of(copied(set.value(1)))}, {matrix_of(copied(set.value(3)))}};
    int number = 0;
    for (const double factor : factors) {
      draw_gradients(set, static_cast<std::uint64_t>(++number));
      for (const Index i : {0, 1}) {
        const Eigen::MatrixXd g = 0.25 * matrix_of(copied(set.gradient(1 + 2 * i)));
        std::visit([&](const auto& o) { points[static_cast<std::size_t>(i)].step(o, g, factor, number); },
                   options);
      }
      optimizer->step(set, {.schedule_factor = factor, .gradient_scale = scale});
      for (const Index i : {0, 1}) {
        const Eigen::MatrixXd& expected = points[static_cast<std::size_t>(i)].omega;
        const Eigen::MatrixXd found = matrix_of(copied(set.value(1 + 2 * i)));
        CAPTURE(optimizer->name(), options.index(), number, i);
        // Some ten products of norms near 7, for each of six steps.
        REQUIRE((found - expected).norm() <= 1e-12);
      }
    }
  }
}

TEST_CASE("a thousand float steps stay on the manifold", "[optimizer][stiefel][long]") {
  // As far from it as a matrix of rounded numbers is: sums of M products that are off by 6e-8 of themselves.
  for (const OptimizerOptions& options : every_riemannian(0.05)) {
    ParameterSet<float> set = make_set<float>();
    const auto optimizer = make_optimizer(options, set);
    double worst = 0;
    for (std::uint64_t step = 0; step < 1000; ++step) {
      draw_gradients(set, step);
      optimizer->step(set);
      if (step % 50 != 49) continue;
      for (const Index i : {1, 3}) worst = std::max(worst, orthogonality_error<float>(set.value(i)));
    }
    CAPTURE(optimizer->name(), worst);
    CHECK(worst <= 1e-6);
    CHECK(worst > 0);
  }
}

TEST_CASE("beside points, Riemannian optimizers are SGD and Adam to the bit", "[optimizer][stiefel]") {
  const auto others_after = [](const OptimizerOptions& options, bool with_points) {
    ParameterSet<float> set;
    set.add("weights", Shape{50, 101});
    if (with_points) set.add("point", Shape{5, 5}, ParameterKind::stiefel);
    set.add("vectors", Shape{7, 9}, ParameterKind::orthogonal);
    set.allocate(Device::cpu());
    for (float& x : set.values()) x = 0.5F;
    const auto optimizer = make_optimizer(options, set);
    for (std::uint64_t step = 0; step < 3; ++step) {
      for (const Index i : {Index{0}, static_cast<Index>(set.list().size()) - 1}) {
        copy<float>(normal_tensor<float>(set.gradient(i).shape(), step), set.gradient(i));
      }
      optimizer->step(set);
    }
    std::vector<float> found;
    for (const char* name : {"weights", "vectors"}) {
      const TensorView<const float> value = set.value(set.find(name));
      found.insert(found.end(), value.begin(), value.end());
    }
    return found;
  };
  CHECK((others_after(Rgd{.lr = 0.1, .momentum = 0.5, .weight_decay = 0.2}, true) ==
         others_after(Sgd{.lr = 0.1, .momentum = 0.5, .weight_decay = 0.2}, false)));
  CHECK((others_after(RgdAdam{.lr = 0.1, .weight_decay = 0.2}, true) ==
         others_after(Adam{.lr = 0.1, .weight_decay = 0.2}, false)));
}

TEMPLATE_TEST_CASE("a Riemannian optimizer that goes on from saved state gives the same bits",
                   "[optimizer][stiefel]", float, double) {
  using T = TestType;
  for (const OptimizerOptions& options : every_riemannian(0.1)) {
    ParameterSet<T> set = make_set<T>();
    const auto optimizer = make_optimizer(options, set);
    const auto train = [](Optimizer<T>& by, ParameterSet<T>& trained, std::uint64_t first) {
      for (std::uint64_t step = first; step < first + 3; ++step) {
        draw_gradients(trained, step);
        by.step(trained);
      }
    };
    train(*optimizer, set, 0);
    ParameterSet<T> resumed = make_set<T>();
    copy<T>(set.values(), resumed.values());
    const auto other = make_optimizer(options, resumed);
    for (std::size_t i = 0; i < optimizer->state().size(); ++i)
      copy<T>(optimizer->state()[i].second, other->state()[i].second);
    other->set_steps(optimizer->steps());
    train(*optimizer, set, 3);
    train(*other, resumed, 3);
    CAPTURE(optimizer->name());
    CHECK(same_bits(set.values(), resumed.values()));
  }
}

TEST_CASE("the number of threads changes no bit of a Riemannian step", "[optimizer][stiefel]") {
  const auto trained = [](const OptimizerOptions& options, int threads) {
    const Threads scope(threads);
    ParameterSet<float> set;
    set.add("point", Shape{150, 110}, ParameterKind::stiefel);
    set.allocate(Device::cpu());
    make_stiefel_point<float>(StiefelKind::matrix, 150, 110)->initialize(2, set.value(0));
    const auto optimizer = make_optimizer(options, set);
    for (std::uint64_t step = 0; step < 2; ++step) {
      draw_gradients(set, step);
      optimizer->step(set);
    }
    return set.values().copy();
  };
  for (const OptimizerOptions& options : every_riemannian(0.1)) {
    const Tensor<float> one = trained(options, 1);
    CHECK(same_bits(one, trained(options, 3)));
  }
}

TEST_CASE("points that are frozen or halted keep their bits", "[optimizer][stiefel]") {
  for (const OptimizerOptions& options : every_riemannian(0)) {
    ParameterSet<float> set = make_set<float>();
    const Tensor<float> before = set.values().copy();
    const auto optimizer = make_optimizer(options, set);
    draw_gradients(set, 1);
    Tensor<std::int64_t> halted(Shape{1});
    halted(0) = 3;
    optimizer->step(set, {.halted = halted});
    CHECK(same_bits(set.values(), before));
    optimizer->step(set);
    for (const Index i : {1, 3}) {
      const Parameter& point = set.list()[static_cast<std::size_t>(i)];
      const auto of = [&](const Tensor<float>& values) {
        const float* const first = values.data() + point.offset;
        return std::vector<float>(first, first + point.shape.count());
      };
      CHECK((of(set.values()) == of(before)));
    }
  }
}

TEST_CASE("a Riemannian optimizer finds the nearest point of the manifold", "[optimizer][stiefel]") {
  // |Omega - B|^2 / 2 is least at the polar factor of B, and its gradient is Omega - B.
  for (const OptimizerOptions& options : every_riemannian(0.05)) {
    ParameterSet<double> set;
    set.add("point", Shape{10, 4}, ParameterKind::stiefel);
    set.allocate(Device::cpu());
    const auto point = make_stiefel_point<double>(StiefelKind::matrix, 10, 4);
    Tensor<double> nearest({10, 4}), b({10, 4});
    point->initialize(3, nearest);
    point->initialize(4, set.value(0));
    for (Index i = 0; i < 10; ++i) {
      for (Index j = 0; j < 4; ++j) b(i, j) = nearest(i, j) * static_cast<double>(1 + j % 2);
    }
    const auto optimizer = make_optimizer(options, set);
    for (int step = 0; step < 600; ++step) {
      for (Index i = 0; i < b.size(); ++i) set.gradients()(i) = set.values()(i) - b.data()[i];
      // The curvatures are 1 and more, so 600 steps of 0.05 leave e^-30. Adam's do not become shorter by
      // themselves.
      const bool is_adam = std::holds_alternative<RgdAdam>(options);
      optimizer->step(set, {.schedule_factor = is_adam ? std::pow(0.98, step) : 1});
    }
    CAPTURE(optimizer->name(), options.index());
    CHECK(relative_error(set.value(0), nearest) <= (std::holds_alternative<RgdAdam>(options) ? 1e-3 : 1e-9));
  }
}

TEST_CASE("points of a Stiefel manifold need a Riemannian optimizer and a fitting shape",
          "[optimizer][stiefel][errors]") {
  const ParameterSet<float> set = make_set<float>();
  for (const OptimizerOptions& options : {OptimizerOptions(Sgd{}), OptimizerOptions(RmsProp{}),
                                          OptimizerOptions(Adam{}), OptimizerOptions(AdamW{})}) {
    check_says<ValueError>([&] { make_optimizer(options, set); },
                           {name_of(options).c_str(), "tall", "Stiefel", "rgd or rgd-adam"});
  }
  for (const Shape& shape : {Shape{4}, Shape{3, 4}, Shape{2, 2, 2}, Shape{3, 0}}) {
    ParameterSet<float> wrong;
    wrong.add("point", shape, ParameterKind::stiefel);
    wrong.allocate(Device::cpu());
    check_says<ShapeError>([&] { make_optimizer(OptimizerOptions(Rgd{}), wrong); },
                           {"point", to_string(shape).c_str()});
  }
}

TEMPLATE_TEST_CASE("Riemannian optimizers do the same on a GPU", "[optimizer][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device || !has_decompositions(*device)) return;
  for (const OptimizerOptions& options : every_riemannian(0.1)) {
    ParameterSet<T> here = make_set<T>(), there = make_set<T>(*device);
    copy<T>(here.values(), there.values());
    const auto optimizer_here = make_optimizer(options, here),
               optimizer_there = make_optimizer(options, there);
    Tensor<double> scale(Shape{1});
    scale(0) = 0.5;
    const Tensor<double> scale_there = scale.copy(*device);
    for (std::uint64_t step = 0; step < 4; ++step) {
      draw_gradients(here, step);
      draw_gradients(there, step);
      optimizer_here->step(here, {.gradient_scale = scale});
      optimizer_there->step(there, {.gradient_scale = scale_there});
    }
    CAPTURE(optimizer_here->name(), options.index());
    CHECK(relative_error(there.values().copy(Device::cpu()), here.values()) <= tolerance::rounding<T>(40));
    for (std::size_t i = 0; i < optimizer_here->state().size(); ++i) {
      Tensor<T> moment(here.values().shape());
      copy<T>(optimizer_there->state()[i].second, moment);
      CHECK(relative_error(moment, optimizer_here->state()[i].second) <= tolerance::rounding<T>(40));
    }
    // A halted step changes nothing.
    Tensor<std::int64_t> halted(Shape{1});
    halted(0) = 5;
    const Tensor<std::int64_t> halted_there = halted.copy(*device);
    const Tensor<T> before = there.values().copy(Device::cpu());
    optimizer_there->step(there, {.halted = halted_there});
    CHECK(same_bits(there.values().copy(Device::cpu()), before));
  }
}

}  // namespace
}  // namespace orthornn::testing
