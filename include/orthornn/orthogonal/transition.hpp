#pragma once

#include <memory>
#include <string>

#include "orthornn/orthogonal/transition_options.hpp"

namespace orthornn {

/// The N x N matrix Q that a recurrence multiplies its state by, as a function of free parameters. It joins a
/// parametrization, which makes Q or its factors from the parameters, and a product, which applies them.
///
/// `prepare` once an optimizer step; then anything else, as often as wanted. Tensors are in C order: Q(i, j)
/// is row i, column j, and h [.., N] holds one column vector of the papers in each row. They lie on the
/// transition's device; parameters alone may lie anywhere in `initialize` and `parameters_of`, which compute
/// on the host, so that a seed gives the same model everywhere.
template <class T>
class Transition {
 public:
  /// Throws as `parameter_of`.
  Transition(const TransitionOptions& options, Index hidden_size, const Execution& execution = {});
  ~Transition();

  Index hidden_size() const { return hidden_size_; }
  const Execution& execution() const { return execution_; }
  Device device() const { return execution_.device; }
  /// Name, shape and kind of the parameters (`parameter_of`).
  const std::string& parameter_name() const { return parameter_.name; }
  const Shape& parameter_shape() const { return parameter_.shape; }
  ParameterKind parameter_kind() const { return parameter_.kind; }
  // How it is applied (ProductTraits).
  const std::string& form() const { return traits_.form; }
  Index coefficient_count() const { return traits_.coefficient_count; }
  Index column_grain() const { return traits_.column_grain; }
  Index launches_of_product() const { return traits_.launches; }

  /// Draws parameters by the options' Init from `seed`.
  void initialize(std::uint64_t seed, TensorView<T> parameters) const;
  /// Parameters with which Q is the given orthogonal matrix [N, N] (a right inverse of `materialize`). Throws
  /// ValueError, saying why, when no parameters reach it.
  void parameters_of(ConstTensorView<T> q, TensorView<T> parameters) const;

  /// Forms what `apply` needs. Throws ShapeError, DeviceError for parameters on another device, and
  /// ValueError with the index of a reflection vector that is zero or not finite, or for other parameters
  /// that are not finite. On a GPU, where `prepare` only enqueues, that ValueError comes from the next
  /// `synchronize` or copy to the host, and Q is garbage until the next `prepare`.
  void prepare(ConstTensorView<T> parameters);
  /// True where a CUDA graph can and should hold `prepare` and `backward` on a GPU, once they have run: they
  /// neither wait nor allocate, nor leave that to a library which does not say, and are not a launch for each
  /// reflection.
  bool recordable() const;
  /// Whether the last `prepare` came to its end; on a GPU, whether it was enqueued.
  bool is_prepared() const { return prepared_; }
  /// h <- Q h for each of the vectors h [.., N], in the execution's precision.
  void apply(TensorView<T> h) const;
  /// h <- Q^T h.
  void apply_transpose(TensorView<T> h) const;
  /// Q [N, N], in full precision.
  Tensor<T> materialize() const;
  /// Gradient of a loss with respect to the parameters from its gradient d_q [N, N] with respect to Q;
  /// overwrites.
  void backward(ConstTensorView<T> d_q, TensorView<T> d_parameters);

  // The rollout's verbs, on column-major matrices. A form that goes by reflections leaves behind, for each
  // column, the L coefficients z (or y) of docs/math.md, section 1.4. The gradient needs them, and not Q.

  /// columns_of(Q) in C order, that is the column-major view of Q^T, for transitions that are applied as one
  /// matrix; no data for others.
  MatrixView<const T> dense_matrix() const;
  /// a += Q h for N x n matrices, coefficients z L x n, in the execution's precision. By the calling thread
  /// alone; safe from several at once.
  void multiply_add(MatrixView<const T> h, MatrixView<T> a, MatrixView<T> z) const;
  /// d += Q^T g, coefficients y L x n.
  void multiply_add_transposed(MatrixView<const T> g, MatrixView<T> d, MatrixView<T> y) const;
  /// Overwrites d_parameters by the gradient of a rollout from the columns g_t (gradient before the product),
  /// h_{t-1}, z_t and y_t over all steps and sequences.
  void backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T> z,
                           MatrixView<const T> y, TensorView<T> d_parameters);

 private:
  void check_vectors(TensorView<T> h) const;

  Index hidden_size_;
  Parameter parameter_;
  Execution execution_;
  std::unique_ptr<Parametrization<T>> parametrization_;
  std::unique_ptr<Product<T>> product_;
  ProductTraits traits_;
  /// False from the beginning of a `prepare` to its end; while it is, `apply` throws ValueError.
  bool prepared_ = false;
};

extern template class Transition<float>;
extern template class Transition<double>;

/// The one place where options become objects. Throws as `parameter_of`.
template <class T>
std::unique_ptr<Transition<T>> make_transition(const TransitionOptions& options, Index hidden_size,
                                               const Execution& execution = {}) {
  return std::make_unique<Transition<T>>(options, hidden_size, execution);
}

/// Only the mathematics: a prepared transition from parameters, V [L, N] or X [N, N], on their device.
template <class T>
std::unique_ptr<Transition<T>> prepare(const TransitionOptions& options, ConstTensorView<T> parameters);

}  // namespace orthornn
