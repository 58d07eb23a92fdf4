#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "linalg/packed_matrix.hpp"
#include "products/coefficient_gradient.hpp"

namespace orthornn {
namespace {

template <class T>
class FactoredProduct final : public Product<T> {
 public:
  FactoredProduct(TensorView<const T> units, TensorView<const T> s_inverse)
      : Product<T>(units.device(), {.form = "factored", .coefficient_count = units.shape()[0]}),
        units_(units),
        s_inverse_(s_inverse),
        product_(units.shape(), units.device()),
        gradient_(units.device()) {}

  void prepare() override {
    const auto u = columns_of(units_);
    const auto s_inverse = columns_of(s_inverse_);
    const auto product = columns_of(product_);
    gemm<T>(1, u, transposed(s_inverse), 0, product);
    coefficients_.pack(transposed(product));  // S^-1 U^T
    gemm<T>(1, u, s_inverse, 0, product);
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
  TensorView<const T> units_, s_inverse_;
  Tensor<T> product_;  // workspace of prepare
  PackedMatrix<T> coefficients_, coefficients_transposed_, reflectors_;
  CoefficientGradient<T> gradient_;
};

}  // namespace

template <class T>
std::unique_ptr<Product<T>> factored_product(TensorView<const T> units, TensorView<const T> s_inverse) {
  return std::make_unique<FactoredProduct<T>>(units, s_inverse);
}

template std::unique_ptr<Product<float>> factored_product<float>(TensorView<const float>,
                                                                 TensorView<const float>);
template std::unique_ptr<Product<double>> factored_product<double>(TensorView<const double>,
                                                                   TensorView<const double>);

}  // namespace orthornn
