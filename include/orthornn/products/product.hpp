#pragma once

#include <limits>
#include <memory>
#include <utility>

#include "orthornn/core/precision.hpp"
#include "orthornn/products/product_traits.hpp"

namespace orthornn {

/// What a parametrization and a product exchange: views of the factors, which the parametrization keeps, or
/// of their gradients, which the product keeps. A product uses some of them; the others are empty.
template <class T>
struct Factors {
  /// [N, N], for products with Q itself.
  TensorView<const T> q = {};
  /// [L, N], for products by reflections: the unit reflectors u_i. Their gradient includes that of S.
  TensorView<const T> units = {};
};

/// Which matrix a product applies.
enum class Side {
  q,             ///< Q.
  q_transposed,  ///< The transpose of Q.
};

/// How Q is applied to columns, and the gradient of that. It is made from views of the factors, whose memory
/// stays in place while their numbers change. Arguments have the right shapes and lie on one device.
template <class T>
class Product {
 public:
  virtual ~Product() = default;

  /// How Q is applied.
  const ProductTraits& traits() const { return traits_; }
  /// columns_of(Q), or no data.
  virtual MatrixView<const T> dense_matrix() const { return {}; }
  /// Takes in new values of the factors.
  virtual void prepare() {}
  /// out += Q x or Q^T x for N x n matrices, coefficients c L x n. By the calling thread alone; safe from
  /// several at once. The precision is that of float products on a GPU.
  virtual void multiply_add(Side side, MatrixView<const T> x, MatrixView<T> out, MatrixView<T> c,
                            Precision precision) const = 0;
  /// The gradient of the factors from a rollout's columns g_t, h_{t-1}, z_t and y_t. The result is valid
  /// until the next call.
  virtual Factors<T> backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T> z,
                                         MatrixView<const T> y, Precision precision) = 0;
  /// The gradient of the factors from d_q [N, N]; d_q itself where the parametrization takes it.
  virtual Factors<T> backward(TensorView<const T> d_q, Precision) { return {.q = d_q}; }

 protected:
  /// A product on a device, which takes all columns at once on a GPU.
  Product(Device device, ProductTraits traits) : traits_(std::move(traits)) {
    if (device.is_cuda()) traits_.column_grain = all_columns;
  }
  /// A column grain with which one thread takes all columns.
  static constexpr Index all_columns = std::numeric_limits<Index>::max();

 private:
  ProductTraits traits_;
};

// The products of orthornn, from views of factors as `Factors` has them. They refer to the views' memory.

/// One N x N product a step.
template <class T>
std::unique_ptr<Product<T>> dense_product(TensorView<const T> q);
/// Two N x L products a step: z = S^-1 U^T h, Q h = h - U z, with S = I/2 + striu(U^T U) (docs/math.md,
/// section 1.1). `s` [L, L] is column-major. In host memory it is S, whose entries below the diagonal are not
/// read. On a GPU it is S^-1, with zeros there. A gradient with respect to Q goes to the parametrization as
/// `Factors::q`.
template <class T>
std::unique_ptr<Product<T>> factored_product(TensorView<const T> units, TensorView<const T> s);
/// One reflection after another, the last one first. Tiles of the batch go through all reflections in the
/// first-level cache, or in a GPU's registers; with the stored coefficients, the gradient is a few matrix
/// products.
template <class T>
std::unique_ptr<Product<T>> tiled_product(TensorView<const T> units);
/// One reflection after another; each is a rank-one update of all columns, forward and backward.
template <class T>
std::unique_ptr<Product<T>> rank_one_product(TensorView<const T> units);

}  // namespace orthornn
