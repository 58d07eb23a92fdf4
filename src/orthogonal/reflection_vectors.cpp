// Products of reflections, CWY in its forms and one reflection after another: both make their factors from
// reflection vectors.

#include <fmt/format.h>

#include <algorithm>

#include "core/back_end.hpp"
#include "cuda/orthogonal/reflectors.hpp"
#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "linalg/s_factor.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthogonal/reflectors.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/orthogonal/cwy.hpp"
#include "orthornn/orthogonal/householder_product.hpp"
#include "products/plan.hpp"

namespace orthornn {
namespace {

/// The parameter of a product of reflections. Throws ValueError unless 0 <= L <= N; L = 0 stands for N.
Parameter reflection_vectors_parameter(Index reflections, Index hidden_size) {
  if (reflections < 0 || reflections > hidden_size) {
    throw ValueError(fmt::format("{} reflections with hidden size {}; expected 1 to {}", reflections,
                                 hidden_size, hidden_size));
  }
  return {"reflection_vectors",
          {reflections == 0 ? hidden_size : reflections, hidden_size},
          ParameterKind::orthogonal,
          0};
}

/// What a product needs of V: the unit reflectors, S as well, or Q = I - U S^-1 U^T.
enum class ReflectionFactors { units, units_and_s, matrix };

/// Reflection vectors V [L, N]: CWY in both forms and the sequential product.
template <class T>
class ReflectionVectors final : public Parametrization<T> {
 public:
  ReflectionVectors(const Shape& shape, Init init, ReflectionFactors made, Device device)
      : reflections_(shape[0]), hidden_size_(shape[1]), init_(init), made_(made) {
    const auto memory = [&](const Shape& sizes) {
      Tensor<T> unspecified(Shape{0}, device);
      unspecified.reserve(sizes);
      return unspecified;
    };
    units_ = memory(shape);
    norms_ = memory({reflections_});
    if (made == ReflectionFactors::units) return;
    const Shape small{reflections_, reflections_};
    s_ = memory(small);
    y_ = memory(shape);
    d_y_ = memory(shape);
    d_s_ = memory(small);
    d_units_ = memory(shape);
    if (made != ReflectionFactors::matrix) return;
    q_ = memory({hidden_size_, hidden_size_});
    in_one_kernel_ =
        device.is_cuda() && has_cuda_bodies && std::max(shape[0], shape[1]) <= cuda::largest_small_reflectors;
  }

  TensorView<const T> units() const { return units_; }
  /// Column-major.
  TensorView<const T> s() const { return s_; }
  TensorView<const T> q() const { return q_; }

  void draw(std::uint64_t seed, TensorView<T> vectors) const override {
    switch (init_) {
      case Init::normal: {
        RandomStream random(seed, RandomPurpose::initialization);
        for (T& x : vectors) x = static_cast<T>(random.normal());
        return;
      }
      case Init::haar:
        return haar_reflection_vectors(seed, vectors);
      case Init::henaff:
      case Init::cayley: {
        Tensor<double> q(Shape{hidden_size_, hidden_size_});
        initial_matrix(init_, seed, reflections_, reflections_ % 2 == 0 ? 1 : -1, q);
        Tensor<double> exact(vectors.shape());
        reflection_vectors_of<double>(q, exact);
        std::transform(exact.begin(), exact.end(), vectors.begin(),
                       [](double x) { return static_cast<T>(x); });
        return;
      }
    }
  }

  void find_parameters(ConstTensorView<T> q, TensorView<T> vectors) const override {
    reflection_vectors_of<T>(q, vectors);
  }

  void prepare_backward(ConstTensorView<T> vectors) override {
    normalize_reflectors<T>(vectors, units_, norms_);
    if (made_ == ReflectionFactors::units) return;
    make_s_factor<T>(u(), columns_of(s_));
    if (prepares_y()) make_y();
  }
  void prepare(ConstTensorView<T> vectors) override {
    if constexpr (has_cuda_bodies) {
      if (in_one_kernel_) return cuda::small_reflection_matrix<T>(vectors, units_, norms_, s_, q_);
    }
    prepare_backward(vectors);
    if (made_ != ReflectionFactors::matrix) return;
    // Q^T = I - U Y^T, in the column-major view of Q's C order.
    const auto q_transposed = columns_of(q_);
    gemm<T>(-1, u(), transposed(columns_of(y_)), 0, q_transposed);
    add_to_diagonal(q_transposed, T{1});
  }

  /// From the gradient of the unit reflectors, or, where S is made, of Q.
  void backward(const Factors<T>& gradient, TensorView<T> d_vectors) override {
    const TensorView<const T> d_units =
        gradient.units.empty() ? backward_of_matrix(gradient.q) : gradient.units;
    backward_of_normalize<T>(units_, norms_, d_units, d_vectors);
  }

 private:
  MatrixView<const T> u() const { return columns_of(units_); }

  /// Whether the forming of Q leaves Y for the backward.
  bool prepares_y() const { return made_ == ReflectionFactors::matrix && !in_one_kernel_; }
  /// Y = U S^-1, with which Q = I - Y U^T.
  void make_y() { times_s_inverse<T>(u(), columns_of(s_), columns_of(y_)); }

  /// The gradient of the unit reflectors from that of Q (docs/math.md, section 1.8).
  TensorView<const T> backward_of_matrix(TensorView<const T> d_q) {
    if (!prepares_y()) make_y();
    const auto d_q_transposed = columns_of(d_q);
    const auto y = columns_of(y_), d_y = columns_of(d_y_), d_s = columns_of(d_s_), du = columns_of(d_units_);
    gemm<T>(-1, transposed(d_q_transposed), u(), 0, d_y);
    times_s_inverse<T>(d_y, transposed(columns_of(s_)), du);
    // Of dS only the strict upper part is variable.
    gemm<T>(-1, transposed(y), du, 0, d_s);
    symmetrize_strict_upper(d_s);
    gemm<T>(1, u(), d_s, 1, du);
    gemm<T>(-1, d_q_transposed, y, 1, du);
    return d_units_;
  }

  Index reflections_, hidden_size_;
  Init init_;
  ReflectionFactors made_;
  bool in_one_kernel_ = false;  ///< Whether one kernel makes all but Y.
  Tensor<T> units_, norms_, s_, q_, y_;
  Tensor<T> d_y_, d_s_, d_units_;  // workspace of the backward
};

}  // namespace

Parameter Cwy::parameter(Index hidden_size) const {
  return reflection_vectors_parameter(reflections, hidden_size);
}

template <class T>
TransitionParts<T> Cwy::parts(Index hidden_size, const Execution& execution) const {
  const Shape shape = parameter(hidden_size).shape;
  const auto vectors = [&](ReflectionFactors made) {
    return std::make_unique<ReflectionVectors<T>>(shape, init, made, execution.device);
  };
  switch (form == ReflectionForm::automatic ? fastest_form<T>(hidden_size, shape[0], execution) : form) {
    case ReflectionForm::factored: {
      auto factors = vectors(ReflectionFactors::units_and_s);
      auto product = factored_product<T>(factors->units(), factors->s());
      return {std::move(factors), std::move(product)};
    }
    case ReflectionForm::sequential: {
      auto factors = vectors(ReflectionFactors::units);
      auto product = tiled_product<T>(factors->units());
      return {std::move(factors), std::move(product)};
    }
    default:
      return dense_parts<T>(vectors(ReflectionFactors::matrix));
  }
}

Parameter HouseholderProduct::parameter(Index hidden_size) const {
  return reflection_vectors_parameter(reflections, hidden_size);
}

template <class T>
TransitionParts<T> HouseholderProduct::parts(Index hidden_size, const Execution& execution) const {
  auto vectors = std::make_unique<ReflectionVectors<T>>(parameter(hidden_size).shape, init,
                                                        ReflectionFactors::units, execution.device);
  auto product =
      rank_one_updates ? rank_one_product<T>(vectors->units()) : tiled_product<T>(vectors->units());
  return {std::move(vectors), std::move(product)};
}

#define ORTHORNN_INSTANTIATE(T)                                             \
  template TransitionParts<T> Cwy::parts<T>(Index, const Execution&) const; \
  template TransitionParts<T> HouseholderProduct::parts<T>(Index, const Execution&) const;
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
