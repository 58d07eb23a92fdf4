#pragma once

#include <memory>
#include <string>

#include "orthornn/orthogonal/transition_options.hpp"

namespace orthornn {

/// The N x N matrix Q that a recurrence multiplies its state by, as a function of free parameters. It joins a
/// parametrization, which makes Q or its factors from the parameters, and a product, which applies them.
///
/// Call `prepare` once an optimizer step; then call anything else, as often as wanted. Tensors are in C
/// order: Q(i, j) is row i, column j, and h [.., N] holds one column vector of the papers in each row. They
/// lie on the transition's device. Only in `initialize` and `parameters_of` the parameters may lie anywhere:
/// both compute on the host, so that a seed gives one model on every device.
template <class T>
class Transition {
 public:
  /// Makes a transition that is not prepared. Throws as `parameter_of`.
  Transition(const TransitionOptions& options, Index hidden_size, const Execution& execution = {});
  /// A prepared transition whose Q is the matrix q [N, N], on the execution's device. It reads q where it
  /// lies: q must not change while the transition is used. Its parameters are q. Throws ShapeError, and
  /// DeviceError for a matrix on another device.
  static Transition of_matrix(ConstTensorView<T> q, const Execution& execution = {});
  /// Takes over another transition, which must not be used any more.
  Transition(Transition&& other) noexcept;
  ~Transition();

  /// Size N of the state.
  Index hidden_size() const { return hidden_size_; }
  /// Device, precision and way through time.
  const Execution& execution() const { return execution_; }
  /// Device on which the transition computes.
  Device device() const { return execution_.device; }
  /// Name of the parameters, as `parameter_of` gives it.
  const std::string& parameter_name() const { return parameter_.name; }
  /// Shape of the parameters, as `parameter_of` gives it.
  const Shape& parameter_shape() const { return parameter_.shape; }
  /// How an optimizer treats the parameters.
  ParameterKind parameter_kind() const { return parameter_.kind; }
  /// How Q is applied: "dense", "factored", "sequential" or "rank-one".
  const std::string& form() const { return traits_.form; }
  /// Number of coefficients that a product records for each column: L, or 0 for dense forms.
  Index coefficient_count() const { return traits_.coefficient_count; }
  /// Number of columns that a thread takes at once, as in ProductTraits.
  Index column_grain() const { return traits_.column_grain; }
  /// Largest number of kernels of one product on a GPU.
  Index launches_of_product() const { return traits_.launches; }

  /// Draws parameters by the options' Init from `seed`. Throws ShapeError.
  void initialize(std::uint64_t seed, TensorView<T> parameters) const;
  /// Finds parameters with which Q is the given orthogonal matrix q [N, N]; it is a right inverse of
  /// `materialize`. Throws ShapeError, and ValueError with the reason where no parameters give q.
  void parameters_of(ConstTensorView<T> q, TensorView<T> parameters) const;

  /// Forms Q, or the factors that `apply` needs, from the parameters. Throws ShapeError, DeviceError for
  /// parameters on another device, and ValueError for parameters that are not finite and for a reflection
  /// vector of zeros, which it names by its index. On a GPU, where `prepare` only starts the work, that
  /// ValueError comes from the next `synchronize` or copy to the host, and Q is unspecified until the next
  /// `prepare`.
  void prepare(ConstTensorView<T> parameters);
  /// Whether a CUDA graph can and should hold `prepare` and `backward` on a GPU once they have run. It is
  /// false where they may wait or allocate, themselves or within a library, and where each reflection is a
  /// launch.
  bool recordable() const;
  /// Whether the last `prepare` came to its end; on a GPU, whether it was started.
  bool is_prepared() const { return prepared_; }
  /// Replaces each of the vectors h [.., N] by Q h, in the execution's precision. Throws ShapeError,
  /// DeviceError, and ValueError before `prepare`.
  void apply(TensorView<T> h) const;
  /// Replaces each of the vectors h [.., N] by Q^T h, in the execution's precision. Throws as `apply`.
  void apply_transpose(TensorView<T> h) const;
  /// Computes the matrix Q [N, N] in full precision. Throws ValueError before `prepare`.
  Tensor<T> materialize() const;
  /// Computes the gradient of a loss with respect to the parameters from its gradient d_q [N, N] with respect
  /// to Q. Overwrites d_parameters. Throws ShapeError and DeviceError.
  void backward(ConstTensorView<T> d_q, TensorView<T> d_parameters);

  // What a rollout needs, on column-major matrices.

  /// View of columns_of(Q) in C order, that is the column-major view of Q^T, for a transition that is applied
  /// as one matrix; a view without data for other transitions.
  MatrixView<const T> dense_matrix() const;
  /// Adds Q h to a, for matrices of n columns of N rows, in the execution's precision. A form that applies
  /// reflections also writes the coefficients z [L x n] of docs/math.md, section 1.4, from which the gradient
  /// follows without Q. Only the calling thread computes; several threads may call it at once.
  void multiply_add(MatrixView<const T> h, MatrixView<T> a, MatrixView<T> z) const;
  /// Adds Q^T g to d, and writes the coefficients y [L x n], as `multiply_add` does.
  void multiply_add_transposed(MatrixView<const T> g, MatrixView<T> d, MatrixView<T> y) const;
  /// Overwrites d_parameters by the gradient of a rollout. The columns of the matrices are g_t (gradient
  /// before the product), h_{t-1}, z_t and y_t for all steps and sequences.
  void backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T> z,
                           MatrixView<const T> y, TensorView<T> d_parameters);

 private:
  Transition(TransitionParts<T> parts, Parameter parameter, Index hidden_size, const Execution& execution);
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

/// Makes a transition from its options. Throws as `parameter_of`.
template <class T>
std::unique_ptr<Transition<T>> make_transition(const TransitionOptions& options, Index hidden_size,
                                               const Execution& execution = {}) {
  return std::make_unique<Transition<T>>(options, hidden_size, execution);
}

/// Makes a prepared transition from parameters, V [L, N], X [N, N] or a free matrix [N, N], on their device;
/// for programs that need the mathematics alone. The number of reflections is that of V. Throws ShapeError
/// unless the parameters have two dimensions, and as `Transition::prepare`.
template <class T>
std::unique_ptr<Transition<T>> prepare(const TransitionOptions& options, ConstTensorView<T> parameters);

}  // namespace orthornn
