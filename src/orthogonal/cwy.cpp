#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "cuda/orthogonal/largest_on_chip.hpp"
#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "orthogonal/check_tensor.hpp"
#include "orthogonal/dense_transition.hpp"
#include "orthogonal/factories.hpp"
#include "orthogonal/reflection_transition.hpp"
#include "orthogonal/reflectors.hpp"

namespace orthornn {
namespace {

/// The common part of both forms of CWY: U, S^-1 and the backward through Q (math.md section 1, "dense").
template <class T>
class CwyTransition : public ReflectionTransition<T> {
 public:
  CwyTransition(const Parameter& vectors, Init init, const Execution& execution)
      : ReflectionTransition<T>(vectors, init, execution),
        s_inverse_(by_reflections(), execution.device),
        left_(vectors.shape, execution.device),
        right_(vectors.shape, execution.device),
        small_(by_reflections(), execution.device),
        small_product_(by_reflections(), execution.device) {}

  void backward(ConstTensorView<T> d_q, TensorView<T> d_vectors) override {
    const Index n = this->hidden_size();
    check_tensor("d_q", d_q, {n, n}, this->device());
    check_tensor("d_reflection_vectors", d_vectors, this->parameter_shape(), this->device());
    const auto u = this->u();
    const auto d_q_transposed = columns_of(d_q);
    const auto left = columns_of(left_);    // dQ U
    const auto right = columns_of(right_);  // dQ^T U
    const auto m = columns_of(small_);
    const auto s_inverse = columns_of(s_inverse_);
    gemm<T>(1, transposed(d_q_transposed), u, 0, left);
    gemm<T>(1, d_q_transposed, u, 0, right);
    // dT = -U^T dQ U, then dS, of which only the strict upper part is variable.
    gemm<T>(-1, transposed(u), left, 0, m);
    backward_of_inverse<T>(s_inverse, m, columns_of(small_product_), m);
    symmetrize_strict_upper(m);
    // dU = -(dQ U S^-T + dQ^T U S^-1) + U (striu(dS) + striu(dS)^T)
    const auto du = columns_of(this->d_units_);
    gemm<T>(-1, left, transposed(s_inverse), 0, du);
    gemm<T>(-1, right, s_inverse, 1, du);
    gemm<T>(1, u, m, 1, du);
    this->finish_backward(d_vectors);
  }

  double flops_of_prepare() const override {
    const double n = static_cast<double>(this->hidden_size()), l = static_cast<double>(this->reflections());
    // Gram matrix, inverse, and the four large and five small products of the backward.
    return 2 * n * l * l + l * l * l + 4 * n * n * l + 8 * n * l * l + 4 * l * l * l;
  }

 protected:
  MatrixView<const T> s_inverse() const { return columns_of(s_inverse_); }
  void prepare_factors(ConstTensorView<T> vectors) {
    this->normalize(vectors);
    inverse_s_factor<T>(this->u(), columns_of(s_inverse_));
  }

  Tensor<T> s_inverse_;
  Tensor<T> left_, right_, small_, small_product_;

 private:
  Shape by_reflections() const { return {this->reflections(), this->reflections()}; }
};

/// One N x N product a step.
template <class T>
class DenseCwy final : public DenseForm<T, CwyTransition<T>> {
 public:
  DenseCwy(const Parameter& vectors, Init init, const Execution& execution)
      : DenseForm<T, CwyTransition<T>>(vectors.shape[-1], vectors, init, execution) {}

  void prepare(ConstTensorView<T> vectors) override {
    this->prepare_factors(vectors);
    // Q^T = I - U (U S^-1)^T, in the column-major view of Q's C order.
    const auto product = columns_of(this->left_);
    gemm<T>(1, this->u(), this->s_inverse(), 0, product);
    const auto q_transposed = this->matrix_.transpose();
    gemm<T>(-1, this->u(), transposed(product), 0, q_transposed);
    add_to_diagonal(q_transposed, T{1});
    this->matrix_.pack();
    this->set_prepared(true);
  }

  double flops_of_prepare() const override {
    const double n = static_cast<double>(this->hidden_size()), l = static_cast<double>(this->reflections());
    return CwyTransition<T>::flops_of_prepare() + 2 * n * l * l + 2 * n * n * l;
  }
};

/// Two N x L products a step: z = S^-1 U^T h, Q h = h - U z.
template <class T>
class FactoredCwy final : public CwyTransition<T> {
 public:
  using CwyTransition<T>::CwyTransition;

  std::string form() const override { return "factored"; }
  Index coefficient_count() const override { return this->reflections(); }

  void prepare(ConstTensorView<T> vectors) override {
    this->prepare_factors(vectors);
    const auto product = columns_of(this->left_);
    gemm<T>(1, this->u(), transposed(this->s_inverse()), 0, product);
    coefficients_.pack(transposed(product));  // S^-1 U^T
    gemm<T>(1, this->u(), this->s_inverse(), 0, product);
    coefficients_transposed_.pack(transposed(product));  // S^-T U^T
    reflectors_.pack(this->u());
    this->set_prepared(true);
  }

  void backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T> z,
                           MatrixView<const T> y, TensorView<T> d_vectors) override {
    this->backward_of_coefficients(g, h, z, y, d_vectors);
  }

  double flops_per_column() const override { return this->flops_of_coefficients(); }
  double flops_of_prepare() const override {
    const double n = static_cast<double>(this->hidden_size()), l = static_cast<double>(this->reflections());
    return 2 * n * l * l + l * l * l + 4 * n * l * l + 2 * n * l * l;
  }

 protected:
  void add_product(MatrixView<const T> h, MatrixView<T> a, MatrixView<T> z,
                   Precision precision) const override {
    reflect(coefficients_, h, a, z, precision);
  }
  void add_transposed_product(MatrixView<const T> g, MatrixView<T> d, MatrixView<T> y,
                              Precision precision) const override {
    reflect(coefficients_transposed_, g, d, y, precision);
  }

 private:
  /// c = coefficients x, out += x - U c.
  void reflect(const PackedMatrix<T>& coefficients, MatrixView<const T> x, MatrixView<T> out, MatrixView<T> c,
               Precision precision) const {
    coefficients.multiply(1, x, c, precision);
    add(x, out);
    reflectors_.multiply_add(-1, c, out, precision);
  }

  PackedMatrix<T> coefficients_, coefficients_transposed_, reflectors_;
};

/// Operations a column, forward, backward and weight gradient: 6 N^2 dense, 12 N L + 2 L^2 factored.
bool dense_is_cheaper(double n, double l) { return 6 * n * n <= 12 * n * l + 2 * l * l; }

/// Whether a rollout of a GPU keeps Q on chip. Then a step does not read Q from memory.
template <class T>
bool stays_on_chip(Index n, const Execution& execution) {
  if constexpr (has_cuda_bodies && std::is_same_v<T, float>) {
    if (!execution.device.is_cuda() || execution.rollout == RolloutWay::stepwise) return false;
    if (n <= cuda::largest_resident_size) return true;
    const Index largest =
        execution.precision == Precision::bf16 ? cuda::largest_bf16_cluster_size : cuda::largest_cluster_size;
    return n <= largest && cuda::has_clusters(execution.device);
  }
  return false;
}

}  // namespace

template <class T>
std::unique_ptr<Transition<T>> make(const Cwy& options, Index hidden_size, const Execution& execution) {
  const Parameter vectors = parameter_of(options, hidden_size);
  const bool dense =
      options.form == ReflectionForm::dense ||
      (options.form == ReflectionForm::automatic &&
       (stays_on_chip<T>(hidden_size, execution) ||
        dense_is_cheaper(static_cast<double>(hidden_size), static_cast<double>(vectors.shape[0]))));
  if (dense) return std::make_unique<DenseCwy<T>>(vectors, options.init, execution);
  return std::make_unique<FactoredCwy<T>>(vectors, options.init, execution);
}

template std::unique_ptr<Transition<float>> make<float>(const Cwy&, Index, const Execution&);
template std::unique_ptr<Transition<double>> make<double>(const Cwy&, Index, const Execution&);

}  // namespace orthornn
