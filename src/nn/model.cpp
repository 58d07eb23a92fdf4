#include "orthornn/nn/model.hpp"

#include "core/for_each.hpp"
#include "orthornn/core/error.hpp"
#include "pointwise/matrices.hpp"

namespace orthornn {

void check_forecast(const SequenceData& data, bool reads_ahead) {
  if (!data.is_forecast || !reads_ahead) return;
  throw ValueError(
      "a layer reads backward in time, and so sees the targets, which are what is read at later steps; use "
      "layers that read forward");
}

template <class T>
Model<T>::Model(const Execution& execution, bool draws)
    : loss_(Shape{2}, execution.device),
      execution_(execution),
      faults_(execution.device),
      noise_(Shape{draws ? 1 : 0}, execution.device) {}

template <class T>
void Model<T>::set_noise(std::uint64_t key) {
  if (noise_.empty()) return;
  // By a kernel on a GPU: a copy from the host would wait for it.
  for_each(noise_.device(), 1, pointwise::SetValue<std::uint64_t>{noise_.data(), key});
}

template <class T>
void Model<T>::set_carried(const std::vector<Tensor<T>>& states) {
  const FaultDomain::Scope scope(faults_);
  carried_.resize(states.size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!(carried_[i].device() == device())) carried_[i] = Tensor<T>(Shape{0}, device());
    carried_[i].reserve(states[i].shape());
    copy<T>(states[i], carried_[i]);
  }
}

template <class T>
void Model<T>::prepare() {
  const FaultDomain::Scope scope(faults_);
  run_prepare();
}

template <class T>
void Model<T>::compute(const Batch& batch, bool gradient) {
  run_on(batch, [&] { run(batch, gradient); });
}

template <class T>
BatchLoss Model<T>::read_loss() const {
  const FaultDomain::Scope scope(faults_);
  double value[2];
  copy<double>(loss_, TensorView<double>(value, loss_.shape()));
  return {.sum = value[0], .count = value[1]};
}

template <class T>
BatchLoss Model<T>::loss(const Batch& batch) {
  prepare();
  loss_of_prepared(batch);
  return read_loss();
}

template <class T>
BatchLoss Model<T>::loss_and_gradient(const Batch& batch) {
  prepare();
  loss_and_gradient_of_prepared(batch);
  return read_loss();
}

template <class T>
void Model<T>::synchronize() {
  const FaultDomain::Scope scope(faults_);
  orthornn::synchronize(device());
}

template class Model<float>;
template class Model<double>;

}  // namespace orthornn
