#include "orthornn/orthogonal/stiefel_point.hpp"

#include <fmt/format.h>

#include "core/fill_on_host.hpp"
#include "core/host_copy.hpp"
#include "orthogonal/checks.hpp"
#include "orthogonal/polar_factor.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/orthogonal/truncated_cwy.hpp"

namespace orthornn {
namespace {

/// The point of St(N, M) that T-CWY draws with a seed.
template <class T>
void draw_point(std::uint64_t seed, TensorView<T> omega) {
  fill_on_host(omega, [&](TensorView<T> host) {
    TruncatedCwy<T> point(host.shape()[0], host.shape()[1]);
    Tensor<T> vectors(point.parameter_shape());
    point.initialize(seed, vectors);
    point.prepare(vectors);
    copy<T>(point.omega(), host);
  });
}

/// For a point whose parameters may be the point itself. Throws as StiefelPoint::parameters_of.
template <class T>
void take_point(const Shape& shape, ConstTensorView<T> omega, TensorView<T> parameters) {
  check_shape("omega", omega.shape(), shape);
  check_shape("parameters", parameters.shape(), shape);
  const Tensor<T> on_host = host_copy(omega);
  check_orthogonal<T>(on_host);
  copy<T>(omega, parameters);
}

/// The parameter is Omega.
template <class T>
class PointItself final : public StiefelPoint<T> {
 public:
  PointItself(const Shape& shape, Device device) : shape_(shape), device_(device) {}

  void initialize(std::uint64_t seed, TensorView<T> parameters) const override {
    check_shape("stiefel_matrix", parameters.shape(), shape_);
    draw_point(seed, parameters);
  }
  void parameters_of(ConstTensorView<T> omega, TensorView<T> parameters) const override {
    take_point(shape_, omega, parameters);
  }
  void prepare(ConstTensorView<T> parameters) override {
    check_tensor("stiefel_matrix", parameters, shape_, device_);
    omega_ = parameters;
  }
  TensorView<const T> omega() const override { return omega_; }
  void backward(ConstTensorView<T> d_omega, TensorView<T> d_parameters) override {
    copy<T>(d_omega, d_parameters);
  }

 private:
  Shape shape_;
  Device device_;
  TensorView<const T> omega_;
};

template <class T>
class NormalizedPoint final : public StiefelPoint<T> {
 public:
  NormalizedPoint(const Shape& shape, Device device)
      : shape_(shape), device_(device), factor_(shape[0], shape[1], device) {}

  void initialize(std::uint64_t seed, TensorView<T> parameters) const override {
    check_shape("proxy_matrix", parameters.shape(), shape_);
    draw_point(seed, parameters);
  }
  void parameters_of(ConstTensorView<T> omega, TensorView<T> parameters) const override {
    take_point(shape_, omega, parameters);
  }
  void prepare(ConstTensorView<T> parameters) override {
    check_tensor("proxy_matrix", parameters, shape_, device_);
    factor_.prepare(parameters);
  }
  TensorView<const T> omega() const override { return factor_.omega(); }
  void backward(ConstTensorView<T> d_omega, TensorView<T> d_parameters) override {
    check_tensor("d_omega", d_omega, shape_, device_);
    check_tensor("d_proxy_matrix", d_parameters, shape_, device_);
    factor_.backward(d_omega, d_parameters);
  }
  bool recordable() const override { return false; }

 private:
  Shape shape_;
  Device device_;
  PolarFactor<T> factor_;
};

}  // namespace

Parameter stiefel_parameter(StiefelKind kind, Index n, Index m) {
  if (m < 1 || m > n)
    throw ValueError(fmt::format("St({}, {}) was asked for; St(N, M) needs 1 <= M <= N", n, m));
  switch (kind) {
    case StiefelKind::truncated_cwy:
      return {"reflection_vectors", {m, n}, ParameterKind::orthogonal, 0};
    case StiefelKind::weight_normalization:
      return {"proxy_matrix", {n, m}, ParameterKind::orthogonal, 0};
    case StiefelKind::matrix:
      break;
  }
  return {"stiefel_matrix", {n, m}, ParameterKind::stiefel, 0};
}

template <class T>
std::unique_ptr<StiefelPoint<T>> make_stiefel_point(StiefelKind kind, Index n, Index m,
                                                    const Execution& execution) {
  const Shape shape = stiefel_parameter(kind, n, m).shape;
  switch (kind) {
    case StiefelKind::truncated_cwy:
      return std::make_unique<TruncatedCwy<T>>(n, m, execution);
    case StiefelKind::weight_normalization:
      return std::make_unique<NormalizedPoint<T>>(shape, execution.device);
    case StiefelKind::matrix:
      break;
  }
  return std::make_unique<PointItself<T>>(shape, execution.device);
}

template std::unique_ptr<StiefelPoint<float>> make_stiefel_point(StiefelKind, Index, Index, const Execution&);
template std::unique_ptr<StiefelPoint<double>> make_stiefel_point(StiefelKind, Index, Index,
                                                                  const Execution&);

}  // namespace orthornn
