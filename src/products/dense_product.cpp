#include "linalg/gemm.hpp"
#include "linalg/packed_matrix.hpp"
#include "orthornn/products/product.hpp"

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

}  // namespace

template <class T>
std::unique_ptr<Product<T>> dense_product(TensorView<const T> q) {
  return std::make_unique<DenseProduct<T>>(q);
}

template std::unique_ptr<Product<float>> dense_product<float>(TensorView<const float>);
template std::unique_ptr<Product<double>> dense_product<double>(TensorView<const double>);

}  // namespace orthornn
