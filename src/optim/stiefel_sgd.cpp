#include "orthornn/optim/stiefel_sgd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "optim/stiefel_steps.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

template <class T>
void check(const StiefelSgd& options, TensorView<const T> omega, TensorView<const T> gradient) {
  const Shape& shape = omega.shape();
  if (shape.rank() != 2 || shape[1] < 1 || shape[0] < shape[1]) {
    throw ShapeError(fmt::format("omega has shape {}, expected [N, M] with N >= M >= 1", to_string(shape)));
  }
  check_shape("gradient of omega", gradient.shape(), shape);
  if (gradient.device() != omega.device()) {
    throw DeviceError(
        fmt::format("Stiefel descent: the gradient of omega lies on {}, omega on {}; copy it there first",
                    to_string(gradient.device()), to_string(omega.device())));
  }
  if (!(options.lr > 0 && std::isfinite(options.lr))) {
    throw ValueError(fmt::format("Stiefel descent: lr is {}; expected a positive number", options.lr));
  }
  if (omega.device().is_cuda()) return;
  if (!std::ranges::all_of(gradient, [](T x) { return std::isfinite(x); }))
    throw ValueError("Stiefel descent: the gradient of omega is not finite");
}

}  // namespace

template <class T>
void StiefelSgd::step(TensorView<T> omega, ConstTensorView<T> gradient) const {
  check<T>(*this, omega, gradient);
  StiefelSteps<T> steps(omega.shape(), omega.device(), retraction);
  Tensor<T> direction(omega.shape(), omega.device());
  copy<T>(gradient, direction);
  if (omega.device().is_cuda()) return steps.step(*this, omega, direction);
  Tensor<T> moved(omega.shape());
  copy<T>(omega, moved);
  steps.step(*this, moved, direction);
  if (!std::ranges::all_of(moved, [](T x) { return std::isfinite(x); })) {
    throw ValueError(fmt::format(
        "Stiefel descent: a step of lr {} leaves no finite point; expected lr times the norm of the "
        "gradient far below 1 / sqrt(epsilon), and independent columns of omega; use a smaller lr",
        lr));
  }
  copy<T>(moved, omega);
}

template <class T>
void StiefelSgd::riemannian_gradient(ConstTensorView<T> omega, ConstTensorView<T> gradient,
                                     TensorView<T> result) const {
  check<T>(*this, omega, gradient);
  check_shape("Riemannian gradient", result.shape(), omega.shape());
  StiefelSteps<T> steps(omega.shape(), omega.device(), Retraction::qr);  // takes no memory for one
  if (result.data() != gradient.data()) copy<T>(gradient, result);
  steps.make_generator(metric, omega, result);
  steps.make_tangent(omega, result);
}

template void StiefelSgd::step(TensorView<float>, TensorView<const float>) const;
template void StiefelSgd::step(TensorView<double>, TensorView<const double>) const;
template void StiefelSgd::riemannian_gradient(TensorView<const float>, TensorView<const float>,
                                              TensorView<float>) const;
template void StiefelSgd::riemannian_gradient(TensorView<const double>, TensorView<const double>,
                                              TensorView<double>) const;

}  // namespace orthornn
