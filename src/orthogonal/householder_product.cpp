#include <limits>

#include "orthogonal/factories.hpp"
#include "orthogonal/reflect_tiles.hpp"
#include "orthogonal/reflection_transition.hpp"

namespace orthornn {
namespace {

template <class T>
class SequentialHouseholder final : public ReflectionTransition<T> {
 public:
  SequentialHouseholder(const HouseholderProduct& options, Index n, Index l)
      : ReflectionTransition<T>(n, l, options.init), rank_one_updates_(options.rank_one_updates) {}

  std::string form() const override { return rank_one_updates_ ? "rank-one" : "sequential"; }
  Index coefficient_count() const override { return this->reflections(); }
  Index column_grain() const override {
    return rank_one_updates_ ? std::numeric_limits<Index>::max() / 2
                             : ReflectionTransition<T>::column_grain();
  }

  void prepare(ConstTensorView<T> vectors) override { this->normalize(vectors); }

  // Q h = H(v1) ... H(vL) h: the last vector reflects first.
  void multiply_add(MatrixView<const T> h, MatrixView<T> a, MatrixView<T> z) const override {
    reflect(ReflectionOrder::last_to_first, h, a, z);
  }
  void multiply_add_transposed(MatrixView<const T> g, MatrixView<T> d, MatrixView<T> y) const override {
    reflect(ReflectionOrder::first_to_last, g, d, y);
  }
  void backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T> z,
                           MatrixView<const T> y, TensorView<T> d_vectors) override {
    this->backward_of_coefficients(g, h, z, y, d_vectors);
  }

  /// As a rollout of one step from h = I, with dQ as the gradient that arrives.
  void backward(ConstTensorView<T> d_q, TensorView<T> d_vectors) override {
    check_shape("d_q", d_q.shape(), {this->hidden_size(), this->hidden_size()});
    check_shape("d_reflection_vectors", d_vectors.shape(), this->parameter_shape());
    const Index n = this->hidden_size();
    const Index l = this->reflections();
    Tensor<T> identity(Shape{n, n}), d_q_columns(Shape{n, n}), ignored(Shape{n, n}), z(Shape{n, l}),
        y(Shape{n, l});
    for (Index i = 0; i < n; ++i) {
      identity(i, i) = 1;
      for (Index j = 0; j < n; ++j) d_q_columns(j, i) = d_q(i, j);
    }
    multiply_add(columns_of(identity), columns_of(ignored), columns_of(z));
    multiply_add_transposed(columns_of(d_q_columns), columns_of(ignored), columns_of(y));
    this->backward_of_coefficients(columns_of(d_q_columns), columns_of(identity), columns_of(z),
                                   columns_of(y), d_vectors);
  }

  double flops_per_column() const override { return this->flops_of_coefficients(); }
  double flops_of_prepare() const override {
    return 2.0 * static_cast<double>(this->hidden_size() * this->reflections() * this->reflections());
  }

 private:
  void reflect(ReflectionOrder order, MatrixView<const T> x, MatrixView<T> out, MatrixView<T> c) const {
    if (rank_one_updates_) {
      reflect_by_rank_one_updates<T>(this->u(), order, x, out, c);
    } else {
      reflect_tiles<T>(this->u(), order, x, out, c);
    }
  }

  bool rank_one_updates_;
};

}  // namespace

template <class T>
std::unique_ptr<Transition<T>> make_householder_product(const HouseholderProduct& options,
                                                        Index hidden_size) {
  return std::make_unique<SequentialHouseholder<T>>(options, hidden_size,
                                                    checked_reflections(options.reflections, hidden_size));
}

template std::unique_ptr<Transition<float>> make_householder_product<float>(const HouseholderProduct&, Index);
template std::unique_ptr<Transition<double>> make_householder_product<double>(const HouseholderProduct&,
                                                                              Index);

}  // namespace orthornn
