#pragma once

#include <cstdint>
#include <memory>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/core/parameters.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// What makes a point of the Stiefel manifold St(N, M) of free parameters.
enum class StiefelKind {
  truncated_cwy,         ///< T-CWY of M reflection vectors (TruncatedCwy).
  weight_normalization,  ///< OWN: V (V^T V)^-1/2 of any V [N, M] (docs/math.md, section 3.5).
  matrix                 ///< The point itself, for a Riemannian optimizer.
};
template <>
struct Names<StiefelKind> {
  using enum StiefelKind;
  static constexpr Choice<StiefelKind> list[] = {
      {"stiefel", truncated_cwy}, {"own", weight_normalization}, {"matrix", matrix}};
};

/// A point Omega of the Stiefel manifold St(N, M), M <= N, as a function of parameters.
template <class T>
class StiefelPoint {
 public:
  virtual ~StiefelPoint() = default;

  /// Draws parameters with which Omega is uniform over St(N, M). It computes on the host, wherever the
  /// parameters lie. Throws ShapeError.
  virtual void initialize(std::uint64_t seed, TensorView<T> parameters) const = 0;
  /// Finds parameters with which Omega is the given matrix omega [N, M]. It computes on the host, wherever
  /// the tensors lie. Throws ShapeError, and ValueError where the columns are not orthonormal and, for T-CWY,
  /// for a square omega whose determinant is not (-1)^N, which no vectors give.
  virtual void parameters_of(ConstTensorView<T> omega, TensorView<T> parameters) const = 0;
  /// Forms Omega. The parameters must stay in place, unchanged, while Omega is used. Throws ShapeError,
  /// DeviceError for parameters on another device, and ValueError for parameters of T-CWY and OWN that give
  /// no point; on a GPU that ValueError comes from the next `synchronize` or copy to the host. A matrix that
  /// is the point itself is taken as it is.
  virtual void prepare(ConstTensorView<T> parameters) = 0;
  /// View of Omega [N, M], valid until the next `prepare`.
  virtual TensorView<const T> omega() const = 0;
  /// Computes the gradient with respect to the parameters from d_omega [N, M]. Overwrites d_parameters.
  /// Throws ShapeError and DeviceError.
  virtual void backward(ConstTensorView<T> d_omega, TensorView<T> d_parameters) = 0;
  /// Whether a CUDA graph can hold `prepare` and `backward`.
  virtual bool recordable() const { return true; }
};

/// The parameter of a point of St(n, m): "reflection_vectors" [M, N], "proxy_matrix" [N, M] or
/// "stiefel_matrix" [N, M]. Throws ValueError unless 1 <= m <= n.
Parameter stiefel_parameter(StiefelKind kind, Index n, Index m);

/// Makes a point of St(n, m). Throws as `stiefel_parameter`.
template <class T>
std::unique_ptr<StiefelPoint<T>> make_stiefel_point(StiefelKind kind, Index n, Index m,
                                                    const Execution& execution = {});

}  // namespace orthornn
