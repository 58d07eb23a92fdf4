#include "core/back_end.hpp"
#include "cuda/orthogonal/reflect_tiles.hpp"
#include "linalg/elementwise.hpp"
#include "orthogonal/check_tensor.hpp"
#include "orthogonal/factories.hpp"
#include "orthogonal/rank_one_updates.hpp"
#include "orthogonal/reflect_tiles.hpp"
#include "orthogonal/reflection_transition.hpp"

namespace orthornn {
namespace {

/// The common part of both forms. Q h = H(v1) ... H(vL) h: the last vector reflects first.
template <class T>
class Householder : public ReflectionTransition<T> {
 public:
  Householder(const Parameter& vectors, Init init, const Execution& execution)
      : ReflectionTransition<T>(vectors, init, execution),
        identity_(Shape{0}, execution.device),
        d_columns_(Shape{0}, execution.device),
        ignored_(Shape{0}, execution.device),
        z_(Shape{0}, execution.device),
        y_(Shape{0}, execution.device) {}

  void prepare(ConstTensorView<T> vectors) override {
    this->normalize(vectors);
    this->set_prepared(true);
  }

  /// As a rollout of one step from h = I, with dQ as the incoming gradient.
  void backward(ConstTensorView<T> d_q, TensorView<T> d_vectors) override {
    const Index n = this->hidden_size();
    check_tensor("d_q", d_q, {n, n}, this->device());
    check_tensor("d_parameters", d_vectors, this->parameter_shape(), this->device());
    const Index coefficients = this->coefficient_count();
    identity_.resize({n, n});
    d_columns_.reserve({n, n});
    ignored_.resize({n, n});
    z_.reserve({n, coefficients});
    y_.reserve({n, coefficients});
    add_to_diagonal(columns_of(identity_), T{1});
    copy_transposed(columns_of(d_q), columns_of(d_columns_));
    const auto identity = columns_of(std::as_const(identity_));
    const auto d_columns = columns_of(std::as_const(d_columns_));
    const MatrixView<T> z{z_.data(), coefficients, n, coefficients, z_.device()};
    const MatrixView<T> y{y_.data(), coefficients, n, coefficients, y_.device()};
    this->multiply_add(identity, columns_of(ignored_), z);
    this->multiply_add_transposed(d_columns, columns_of(ignored_), y);
    this->backward_of_rollout(d_columns, identity, z, y, d_vectors);
  }

  double flops_of_prepare() const override {
    return 2.0 * static_cast<double>(this->hidden_size() * this->reflections() * this->reflections());
  }

 protected:
  /// One for each reflection, a copy before them and a sum after them.
  Index launches_of_rank_one_updates() const { return this->reflections() + 2; }

 private:
  Tensor<T> identity_, d_columns_, ignored_, z_, y_;
};

/// Tiles of the batch go through all reflections in the first-level cache, or in a GPU's registers; with the
/// stored coefficients, the gradient is a few matrix products.
template <class T>
class TiledHouseholder final : public Householder<T> {
 public:
  using Householder<T>::Householder;

  std::string form() const override { return "sequential"; }
  bool recordable() const override { return in_registers(); }
  Index launches_of_product() const override {
    return in_registers() ? 1 : this->launches_of_rank_one_updates();
  }
  Index coefficient_count() const override { return this->reflections(); }

  void backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T> z,
                           MatrixView<const T> y, TensorView<T> d_vectors) override {
    this->backward_of_coefficients(g, h, z, y, d_vectors);
  }
  double flops_per_column() const override { return this->flops_of_coefficients(); }

 protected:
  void add_product(MatrixView<const T> h, MatrixView<T> a, MatrixView<T> z, Precision) const override {
    reflect_tiles<T>(this->u(), ReflectionOrder::last_to_first, h, a, z);
  }
  void add_transposed_product(MatrixView<const T> g, MatrixView<T> d, MatrixView<T> y,
                              Precision) const override {
    reflect_tiles<T>(this->u(), ReflectionOrder::first_to_last, g, d, y);
  }

 private:
  /// Whether columns stay on chip through all reflections, as they do on the CPU.
  bool in_registers() const {
    if constexpr (has_cuda_bodies) {
      const Device device = this->device();
      if (device.is_cuda()) return cuda::reflects_in_registers<T>(device, this->hidden_size());
    }
    return true;
  }
};

/// Every reflection is a rank-one update, forward and backward.
template <class T>
class RankOneHouseholder final : public Householder<T> {
 public:
  using Householder<T>::Householder;

  std::string form() const override { return "rank-one"; }
  bool recordable() const override { return !this->device().is_cuda(); }
  Index launches_of_product() const override { return this->launches_of_rank_one_updates(); }
  Index column_grain() const override { return this->all_columns; }

  void backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T>,
                           MatrixView<const T>, TensorView<T> d_vectors) override {
    gradient_by_rank_one_updates<T>(this->u(), g, h, columns_of(this->d_units_));
    this->finish_backward(d_vectors);
  }
  /// Two sweeps over the reflections in the rollout. After it, two more and the same work again for the
  /// gradient.
  double flops_per_column() const override {
    return 20.0 * static_cast<double>(this->hidden_size() * this->reflections());
  }

 protected:
  void add_product(MatrixView<const T> h, MatrixView<T> a, MatrixView<T>, Precision) const override {
    reflect_by_rank_one_updates<T>(this->u(), ReflectionOrder::last_to_first, h, a);
  }
  void add_transposed_product(MatrixView<const T> g, MatrixView<T> d, MatrixView<T>,
                              Precision) const override {
    reflect_by_rank_one_updates<T>(this->u(), ReflectionOrder::first_to_last, g, d);
  }
};

}  // namespace

template <class T>
std::unique_ptr<Transition<T>> make(const HouseholderProduct& options, Index hidden_size,
                                    const Execution& execution) {
  const Parameter vectors = parameter_of(options, hidden_size);
  if (options.rank_one_updates)
    return std::make_unique<RankOneHouseholder<T>>(vectors, options.init, execution);
  return std::make_unique<TiledHouseholder<T>>(vectors, options.init, execution);
}

template std::unique_ptr<Transition<float>> make<float>(const HouseholderProduct&, Index, const Execution&);
template std::unique_ptr<Transition<double>> make<double>(const HouseholderProduct&, Index, const Execution&);

}  // namespace orthornn
