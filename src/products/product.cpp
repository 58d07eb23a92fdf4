#include "orthornn/products/product.hpp"

#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "linalg/packed_matrix.hpp"
#include "linalg/s_factor.hpp"
#include "products/reflections.hpp"

namespace orthornn {
namespace {

/// Q has two packings on the CPU; a GPU multiplies by Q without packing.
template <class T>
class DenseProduct final : public Product<T> {
 public:
  explicit DenseProduct(TensorView<const T> q)
      : Product<T>(q.device(), {.form = "dense"}), q_(q), d_q_(Shape{0}, q.device()) {}

  MatrixView<const T> dense_matrix() const override { return columns_of(q_); }

  void prepare() override {
    if (q_.device().is_cuda()) return;
    forward_.pack(side_of(Side::q));
    backward_.pack(side_of(Side::q_transposed));
  }

  void multiply_add(Side side, MatrixView<const T> x, MatrixView<T> out, MatrixView<T>,
                    Precision precision) const override {
    if (q_.device().is_cuda()) return gemm<T>(1, side_of(side), x, 1, out, precision);
    (side == Side::q ? forward_ : backward_).multiply_add(1, x, out);
  }

  Factors<T> backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T>,
                                 MatrixView<const T>, Precision precision) override {
    d_q_.reserve(q_.shape());
    // dQ = G H^T in C order, that is H G^T in the column-major view.
    gemm<T>(1, h, transposed(g), 0, columns_of(d_q_), precision);
    return {.q = d_q_};
  }

 private:
  /// The column-major view of Q's C order is Q^T.
  Operand<T> side_of(Side side) const { return {columns_of(q_), side == Side::q}; }

  TensorView<const T> q_;
  PackedMatrix<T> forward_, backward_;
  Tensor<T> d_q_;
};

/// The gradient of unit reflectors from the coefficients that a rollout recorded (docs/math.md, section 1.7):
/// M = striu(Y Z^T), dU = -(G Z^T + H Y^T) + U (M + M^T).
template <class T>
class CoefficientGradient {
 public:
  explicit CoefficientGradient(Device device) : coefficient_product_({0}, device), d_units_({0}, device) {}

  /// For units [L, N]; g and h are N x n, z and y L x n. The result is valid until the next call.
  Factors<T> of(TensorView<const T> units, MatrixView<const T> g, MatrixView<const T> h,
                MatrixView<const T> z, MatrixView<const T> y, Precision precision) {
    coefficient_product_.reserve({z.rows, z.rows});
    d_units_.reserve(units.shape());
    const auto m = columns_of(coefficient_product_);
    gemm<T>(1, y, transposed(z), 0, m, precision);
    symmetrize_strict_upper(m);
    const auto du = columns_of(d_units_);
    gemm<T>(-1, g, transposed(z), 0, du, precision);
    gemm<T>(-1, h, transposed(y), 1, du, precision);
    gemm<T>(1, columns_of(units), m, 1, du);
    return {.units = d_units_};
  }

 private:
  Tensor<T> coefficient_product_, d_units_;
};

template <class T>
class FactoredProduct final : public Product<T> {
 public:
  FactoredProduct(TensorView<const T> units, TensorView<const T> s)
      : Product<T>(units.device(), {.form = "factored", .coefficient_count = units.shape()[0]}),
        units_(units),
        s_(s),
        product_(units.shape(), units.device()),
        gradient_(units.device()) {}

  void prepare() override {
    const auto u = columns_of(units_);
    const auto s = columns_of(s_);
    const auto product = columns_of(product_);
    times_s_inverse<T>(u, transposed(s), product);
    coefficients_.pack(transposed(product));  // S^-1 U^T
    times_s_inverse<T>(u, s, product);
    coefficients_transposed_.pack(transposed(product));  // S^-T U^T
    reflectors_.pack(u);
  }

  /// c = coefficients x, out += x - U c.
  void multiply_add(Side side, MatrixView<const T> x, MatrixView<T> out, MatrixView<T> c,
                    Precision precision) const override {
    (side == Side::q ? coefficients_ : coefficients_transposed_).multiply(1, x, c, precision);
    add(x, out);
    reflectors_.multiply_add(-1, c, out, precision);
  }

  Factors<T> backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T> z,
                                 MatrixView<const T> y, Precision precision) override {
    return gradient_.of(units_, g, h, z, y, precision);
  }

 private:
  TensorView<const T> units_, s_;
  Tensor<T> product_;  // workspace of prepare
  PackedMatrix<T> coefficients_, coefficients_transposed_, reflectors_;
  CoefficientGradient<T> gradient_;
};

/// Q h = H(v1) ... H(vL) h: the last vector reflects first.
ReflectionOrder order_of(Side side) {
  return side == Side::q ? ReflectionOrder::last_to_first : ReflectionOrder::first_to_last;
}

template <class T>
class SequentialProduct : public Product<T> {
 public:
  /// As a rollout of one step from h = I, with dQ as the gradient that arrives.
  Factors<T> backward(TensorView<const T> d_q, Precision precision) override {
    const Index n = d_q.shape()[0], coefficients = this->traits().coefficient_count;
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
    this->multiply_add(Side::q, identity, columns_of(ignored_), z, precision);
    this->multiply_add(Side::q_transposed, d_columns, columns_of(ignored_), y, precision);
    return this->backward_of_rollout(d_columns, identity, z, y, precision);
  }

 protected:
  SequentialProduct(TensorView<const T> units, ProductTraits traits)
      : Product<T>(units.device(), std::move(traits)),
        units_(units),
        identity_({0}, units.device()),
        d_columns_({0}, units.device()),
        ignored_({0}, units.device()),
        z_({0}, units.device()),
        y_({0}, units.device()) {}

  /// For each reflection a kernel, a copy before them and a sum after them.
  static Index launches_of_rank_one_updates(TensorView<const T> units) { return units.shape()[0] + 2; }

  TensorView<const T> units_;

 private:
  Tensor<T> identity_, d_columns_, ignored_, z_, y_;
};

template <class T>
class TiledProduct final : public SequentialProduct<T> {
 public:
  explicit TiledProduct(TensorView<const T> units)
      : SequentialProduct<T>(units, traits_for(units)), gradient_(units.device()) {}

  void multiply_add(Side side, MatrixView<const T> x, MatrixView<T> out, MatrixView<T> c,
                    Precision) const override {
    reflect_tiles<T>(columns_of(this->units_), order_of(side), x, out, c);
  }
  Factors<T> backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T> z,
                                 MatrixView<const T> y, Precision precision) override {
    return gradient_.of(this->units_, g, h, z, y, precision);
  }

 private:
  static ProductTraits traits_for(TensorView<const T> units) {
    const bool stay = tiles_stay_on_chip<T>(units.device(), units.shape()[1]);
    return {.form = "sequential",
            .coefficient_count = units.shape()[0],
            .launches = stay ? 1 : SequentialProduct<T>::launches_of_rank_one_updates(units),
            .recordable = stay};
  }

  CoefficientGradient<T> gradient_;
};

template <class T>
class RankOneProduct final : public SequentialProduct<T> {
 public:
  explicit RankOneProduct(TensorView<const T> units)
      : SequentialProduct<T>(units, {.form = "rank-one",
                                     .column_grain = Product<T>::all_columns,
                                     .launches = SequentialProduct<T>::launches_of_rank_one_updates(units),
                                     .recordable = !units.device().is_cuda()}),
        d_units_({0}, units.device()) {}

  void multiply_add(Side side, MatrixView<const T> x, MatrixView<T> out, MatrixView<T>,
                    Precision) const override {
    reflect_by_rank_one_updates<T>(columns_of(this->units_), order_of(side), x, out);
  }
  Factors<T> backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T>,
                                 MatrixView<const T>, Precision) override {
    d_units_.reserve(this->units_.shape());
    gradient_by_rank_one_updates<T>(columns_of(this->units_), g, h, columns_of(d_units_));
    return {.units = d_units_};
  }

 private:
  Tensor<T> d_units_;
};

}  // namespace

template <class T>
std::unique_ptr<Product<T>> dense_product(TensorView<const T> q) {
  return std::make_unique<DenseProduct<T>>(q);
}

template <class T>
std::unique_ptr<Product<T>> factored_product(TensorView<const T> units, TensorView<const T> s) {
  return std::make_unique<FactoredProduct<T>>(units, s);
}

template <class T>
std::unique_ptr<Product<T>> tiled_product(TensorView<const T> units) {
  return std::make_unique<TiledProduct<T>>(units);
}

template <class T>
std::unique_ptr<Product<T>> rank_one_product(TensorView<const T> units) {
  return std::make_unique<RankOneProduct<T>>(units);
}

#define ORTHORNN_INSTANTIATE(T)                                                                       \
  template std::unique_ptr<Product<T>> dense_product<T>(TensorView<const T>);                         \
  template std::unique_ptr<Product<T>> factored_product<T>(TensorView<const T>, TensorView<const T>); \
  template std::unique_ptr<Product<T>> tiled_product<T>(TensorView<const T>);                         \
  template std::unique_ptr<Product<T>> rank_one_product<T>(TensorView<const T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
