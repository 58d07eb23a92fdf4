#include "optim/stiefel_update.hpp"

#include "core/for_each.hpp"
#include "linalg/gemm.hpp"
#include "pointwise/stiefel.hpp"

namespace orthornn {

template <class T>
StiefelUpdate<T>::StiefelUpdate(const Shape& shape, Index first_number, Device device,
                                StiefelSgd::Metric metric, StiefelSgd::Retraction retraction)
    : offset_(first_number),
      metric_(metric),
      retraction_(retraction),
      steps_(shape, device, retraction),
      point_(shape, device),
      direction_(shape, device),
      moment_(shape, device),
      sum_(Shape{1}, device),
      square_(Shape{1}, device) {}

/// point <- Omega, direction <- Z.
template <class T>
void StiefelUpdate<T>::load(const StiefelNumbers<T>& numbers) {
  for_each(point_.device(), point_.size(),
           pointwise::LoadStiefel<T>{numbers.value, numbers.gradient, numbers.gradient_scale, point_.data(),
                                     direction_.data()});
  steps_.make_generator(metric_, point_, direction_);
  steps_.make_tangent(point_, direction_);
}

/// moment <- keep P(moment) + take Z, which is kept.
template <class T>
void StiefelUpdate<T>::advance_moment(double keep, double take, const StiefelNumbers<T>& numbers) {
  const Index count = moment_.size();
  for_each(moment_.device(), count, pointwise::ToDouble<T>{numbers.first_moment, moment_.data()});
  steps_.project(point_, moment_);
  for_each(moment_.device(), count, pointwise::Mix<double>{keep, take, direction_.data(), moment_.data()});
  for_each(moment_.device(), count,
           pointwise::FromDouble<T>{moment_.data(), numbers.first_moment, numbers.halted});
}

/// Omega <- its retraction along -length tangent, which is overwritten.
template <class T>
void StiefelUpdate<T>::move(Tensor<double>& tangent, double length, const StiefelNumbers<T>& numbers) {
  if (retraction_ == StiefelSgd::Retraction::qr) {
    steps_.retract_qr(point_, tangent, length);
  } else {
    // The generator of a tangent B is (I - Omega Omega^T / 2) B.
    steps_.make_generator(StiefelSgd::Metric::euclidean, point_, tangent);
    steps_.retract_cayley(point_, tangent, length);
    steps_.restore(point_);
  }
  for_each(point_.device(), point_.size(),
           pointwise::FromDouble<T>{point_.data(), numbers.value, numbers.halted});
}

template <class T>
void StiefelUpdate<T>::step(const SgdRule<double>& rule, const StiefelNumbers<T>& numbers) {
  load(numbers);
  if (numbers.first_moment != nullptr) advance_moment(rule.keep, 1, numbers);
  if (rule.rate > 0) move(numbers.first_moment != nullptr ? moment_ : direction_, rule.rate, numbers);
}

template <class T>
void StiefelUpdate<T>::step(const AdamRule<double>& rule, const StiefelNumbers<T>& numbers) {
  load(numbers);
  advance_moment(rule.keep1, rule.take1, numbers);
  const Device device = point_.device();
  const Index count = point_.size();
  const MatrixView<const double> entries(direction_.data(), count, 1, count, device);
  gemm<double>(1, transposed(entries), entries, 0, MatrixView<double>(sum_.data(), 1, 1, 1, device));
  for_each(device, count,
           pointwise::ScaleByMeanSquare<T>{.moment = moment_.data(),
                                           .square = numbers.second_moment,
                                           .sum = sum_.data(),
                                           .keep = rule.keep2,
                                           .take = rule.take2 / static_cast<double>(count),
                                           .corrected_rate = rule.corrected_rate,
                                           .root_scale = rule.root_scale,
                                           .epsilon = rule.epsilon,
                                           .direction = direction_.data(),
                                           .new_square = square_.data()});
  for_each(device, 1, pointwise::FromDouble<T>{square_.data(), numbers.second_moment, numbers.halted});
  if (rule.corrected_rate > 0) move(direction_, 1, numbers);
}

template class StiefelUpdate<float>;
template class StiefelUpdate<double>;

}  // namespace orthornn
