#include "linalg/elementwise.hpp"
#include "products/coefficient_gradient.hpp"
#include "products/rank_one_updates.hpp"
#include "products/reflect_tiles.hpp"

namespace orthornn {
namespace {

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
std::unique_ptr<Product<T>> tiled_product(TensorView<const T> units) {
  return std::make_unique<TiledProduct<T>>(units);
}

template <class T>
std::unique_ptr<Product<T>> rank_one_product(TensorView<const T> units) {
  return std::make_unique<RankOneProduct<T>>(units);
}

template std::unique_ptr<Product<float>> tiled_product<float>(TensorView<const float>);
template std::unique_ptr<Product<double>> tiled_product<double>(TensorView<const double>);
template std::unique_ptr<Product<float>> rank_one_product<float>(TensorView<const float>);
template std::unique_ptr<Product<double>> rank_one_product<double>(TensorView<const double>);

}  // namespace orthornn
