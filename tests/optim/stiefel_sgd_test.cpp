#include "orthornn/optim/stiefel_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "support/catch.hpp"

using namespace orthornn;
using Metric = StiefelSgd::Metric;
using Retraction = StiefelSgd::Retraction;

namespace {

const std::vector<StiefelSgd> every_method = {
    {.metric = Metric::canonical, .retraction = Retraction::qr},
    {.metric = Metric::euclidean, .retraction = Retraction::qr},
    {.metric = Metric::canonical, .retraction = Retraction::cayley},
    {.metric = Metric::euclidean, .retraction = Retraction::cayley}};

// One column, a tall one, more than half of the columns, square.
const std::vector<Shape> every_shape = {{5, 1}, {13, 4}, {9, 7}, {6, 6}};

// Plain double matrices, so that what the tests compare with shares nothing with the library.
struct RowMajorMatrix {
  Index rows;
  Index cols;
  std::vector<double> entries = std::vector<double>(static_cast<std::size_t>(rows * cols));

  double& operator()(Index i, Index j) { return entries[static_cast<std::size_t>(i * cols + j)]; }
  double operator()(Index i, Index j) const { return entries[static_cast<std::size_t>(i * cols + j)]; }
};

RowMajorMatrix identity(Index size) {
  RowMajorMatrix result{size, size};
  for (Index i = 0; i < size; ++i) result(i, i) = 1;
  return result;
}

RowMajorMatrix operator*(const RowMajorMatrix& a, const RowMajorMatrix& b) {
  RowMajorMatrix result{a.rows, b.cols};
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < b.cols; ++j) {
      for (Index k = 0; k < a.cols; ++k) result(i, j) += a(i, k) * b(k, j);
    }
  }
  return result;
}

RowMajorMatrix transpose(const RowMajorMatrix& a) {
  RowMajorMatrix result{a.cols, a.rows};
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < a.cols; ++j) result(j, i) = a(i, j);
  }
  return result;
}

/// a + factor b
RowMajorMatrix sum(const RowMajorMatrix& a, double factor, const RowMajorMatrix& b) {
  RowMajorMatrix result = a;
  for (std::size_t i = 0; i < result.entries.size(); ++i) result.entries[i] += factor * b.entries[i];
  return result;
}

/// <a, b> = tr(a^T b)
double inner(const RowMajorMatrix& a, const RowMajorMatrix& b) {
  double result = 0;
  for (std::size_t i = 0; i < a.entries.size(); ++i) result += a.entries[i] * b.entries[i];
  return result;
}

double norm(const RowMajorMatrix& a) { return std::sqrt(inner(a, a)); }

/// a^-1 b, by elimination with row pivots.
RowMajorMatrix solve(RowMajorMatrix a, RowMajorMatrix b) {
  for (Index k = 0; k < a.rows; ++k) {
    Index pivot = k;
    for (Index i = k + 1; i < a.rows; ++i) {
      if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
    }
    for (Index j = 0; j < a.cols; ++j) std::swap(a(k, j), a(pivot, j));
    for (Index j = 0; j < b.cols; ++j) std::swap(b(k, j), b(pivot, j));
    for (Index i = 0; i < a.rows; ++i) {
      if (i == k) continue;
      const double factor = a(i, k) / a(k, k);
      for (Index j = 0; j < a.cols; ++j) a(i, j) -= factor * a(k, j);
      for (Index j = 0; j < b.cols; ++j) b(i, j) -= factor * b(k, j);
    }
  }
  for (Index i = 0; i < b.rows; ++i) {
    for (Index j = 0; j < b.cols; ++j) b(i, j) /= a(i, i);
  }
  return b;
}

/// Columns made orthonormal by modified Gram-Schmidt, which is the QR factorization with a positive diagonal;
/// twice, so that rounding stays that of double.
RowMajorMatrix orthonormalized(RowMajorMatrix a) {
  for (int pass = 0; pass < 2; ++pass) {
    for (Index j = 0; j < a.cols; ++j) {
      for (Index k = 0; k <= j; ++k) {
        double product = 0;
        for (Index i = 0; i < a.rows; ++i) product += a(i, k) * a(i, j);
        for (Index i = 0; i < a.rows; ++i) {
          if (k < j) a(i, j) -= product * a(i, k);
          if (k == j) a(i, j) /= std::sqrt(product);
        }
      }
    }
  }
  return a;
}

RowMajorMatrix random_matrix(const Shape& shape, std::uint64_t number) {
  RandomStream random(11, RandomPurpose::training, number);
  RowMajorMatrix result{shape[0], shape[1]};
  for (double& entry : result.entries) entry = random.normal();
  return result;
}

RowMajorMatrix random_point(const Shape& shape, std::uint64_t number) {
  return orthonormalized(random_matrix(shape, number));
}

template <class T>
Tensor<T> to_tensor(const RowMajorMatrix& matrix) {
  Tensor<T> result(Shape{matrix.rows, matrix.cols});
  std::transform(matrix.entries.begin(), matrix.entries.end(), result.begin(),
                 [](double entry) { return static_cast<T>(entry); });
  return result;
}

template <class T>
RowMajorMatrix to_matrix(const Tensor<T>& tensor) {
  return {tensor.shape()[0], tensor.shape()[1], std::vector<double>(tensor.begin(), tensor.end())};
}

RowMajorMatrix after_step(StiefelSgd method, double lr, const RowMajorMatrix& omega,
                          const RowMajorMatrix& gradient) {
  method.lr = lr;
  Tensor<double> result = to_tensor<double>(omega);
  method.step(result.view(), to_tensor<double>(gradient));
  return to_matrix(result);
}

RowMajorMatrix riemannian_gradient(const StiefelSgd& method, const RowMajorMatrix& omega,
                                   const RowMajorMatrix& gradient) {
  Tensor<double> result(Shape{omega.rows, omega.cols});
  method.riemannian_gradient(to_tensor<double>(omega), to_tensor<double>(gradient), result.view());
  return to_matrix(result);
}

double distance_from_manifold(const RowMajorMatrix& omega) {
  return norm(sum(transpose(omega) * omega, -1, identity(omega.cols)));
}

// Double results of a few products of matrices with norms of about 10: errors of some
// 10 x 10 x 13 eps = 3e-13.
constexpr double few_products_rounding = 1e-12;

}  // namespace

TEST_CASE("The Riemannian gradient is tangent and represents the differential in its metric", "[stiefel]") {
  for (const StiefelSgd& method : every_method) {
    for (const Shape& shape : every_shape) {
      const RowMajorMatrix omega = random_point(shape, 1);
      const RowMajorMatrix gradient = random_matrix(shape, 2);
      const RowMajorMatrix z = riemannian_gradient(method, omega, gradient);
      const RowMajorMatrix inside = transpose(omega) * z;
      CHECK(norm(sum(inside, 1, transpose(inside))) <= few_products_rounding);

      // Any tangent vector is B Omega with a skew-symmetric B. For all of them <Z, X>_metric = <G, X>, and
      // only the gradient does that.
      const RowMajorMatrix square = random_matrix({shape[0], shape[0]}, 3);
      const RowMajorMatrix x = sum(square, -1, transpose(square)) * omega;
      double product = inner(z, x);
      if (method.metric == Metric::canonical) product -= inner(inside, transpose(omega) * x) / 2;
      CHECK(std::abs(product - inner(gradient, x)) <= few_products_rounding * norm(gradient) * norm(x));
    }
  }
}

TEST_CASE("A short step follows the Riemannian gradient", "[stiefel]") {
  for (const StiefelSgd& method : every_method) {
    for (const Shape& shape : every_shape) {
      const RowMajorMatrix omega = random_point(shape, 4);
      const RowMajorMatrix gradient = random_matrix(shape, 5);
      const RowMajorMatrix z = riemannian_gradient(method, omega, gradient);
      const auto error = [&](double lr) {
        const RowMajorMatrix velocity = sum(after_step(method, lr, omega, gradient), -1, omega);
        return norm(sum(z, 1 / lr, velocity));
      };
      // The curve's second derivative times lr / 2: ten times less at a tenth of the step, the third
      // derivative (1e-3 of it) aside. Rounding, 1e-15 / lr, is far below both.
      const double ratio = error(1e-3) / error(1e-4);
      CAPTURE(to_string(shape), ratio);
      CHECK(std::abs(ratio - 10) <= 0.5);
      CHECK(error(1e-4) <= 1e-4 * (norm(gradient) * norm(gradient) + 1));
    }
  }
}

TEST_CASE("The QR retraction is the factorization with a positive diagonal", "[stiefel]") {
  for (const Metric metric : {Metric::canonical, Metric::euclidean}) {
    const StiefelSgd method{.metric = metric, .retraction = Retraction::qr};
    for (const Shape& shape : every_shape) {
      const RowMajorMatrix omega = random_point(shape, 6);
      const RowMajorMatrix gradient = random_matrix(shape, 7);
      const RowMajorMatrix z = riemannian_gradient(method, omega, gradient);
      const RowMajorMatrix expected = orthonormalized(sum(omega, -0.3, z));
      CHECK(norm(sum(after_step(method, 0.3, omega, gradient), -1, expected)) <= few_products_rounding);
    }
  }
}

TEST_CASE("The 2M x 2M solve gives the N x N Cayley transform", "[stiefel]") {
  for (const Metric metric : {Metric::canonical, Metric::euclidean}) {
    const StiefelSgd method{.metric = metric, .retraction = Retraction::cayley};
    for (const Shape& shape : every_shape) {
      const RowMajorMatrix omega = random_point(shape, 8);
      const RowMajorMatrix gradient = random_matrix(shape, 9);
      RowMajorMatrix direction = gradient;
      if (metric == Metric::euclidean) {
        direction = sum(gradient, -0.5, omega * (transpose(omega) * gradient));
      }
      const RowMajorMatrix half = direction * transpose(omega);
      const RowMajorMatrix a = sum(half, -1, transpose(half));
      for (const double lr : {0.01, 0.3, 2.0}) {
        const RowMajorMatrix plus = sum(identity(shape[0]), lr / 2, a);
        const RowMajorMatrix minus = sum(identity(shape[0]), -lr / 2, a);
        const RowMajorMatrix expected = solve(plus, minus * omega);
        CAPTURE(to_string(shape), lr);
        CHECK(norm(sum(after_step(method, lr, omega, gradient), -1, expected)) <= few_products_rounding);
      }
    }
  }
}

TEST_CASE("On the circle, steps that can be done by hand", "[stiefel]") {
  const RowMajorMatrix east{2, 1, {1, 0}};
  const RowMajorMatrix gradient{2, 1, {5, 0.75}};  // only its 0.75 north is tangent
  // M = 1: the two metrics agree on vectors orthogonal to Omega, and Z = [0, 0.75] for both.
  for (const StiefelSgd& method : every_method) {
    const RowMajorMatrix z = riemannian_gradient(method, east, gradient);
    CHECK(norm(sum(z, -1, RowMajorMatrix{2, 1, {0, 0.75}})) <= few_products_rounding);
    const RowMajorMatrix found = after_step(method, 1, east, gradient);
    // qr: [1, -3/4] to length 1, a 3-4-5 triangle. cayley: a turn by 2 atan(3/8), cosine (64 - 9) / (64 + 9).
    const RowMajorMatrix expected = method.retraction == Retraction::qr
                                        ? RowMajorMatrix{2, 1, {0.8, -0.6}}
                                        : RowMajorMatrix{2, 1, {55.0 / 73, -48.0 / 73}};
    CHECK(norm(sum(found, -1, expected)) <= few_products_rounding);
  }
}

TEMPLATE_TEST_CASE("A thousand steps stay on the manifold", "[stiefel]", float, double) {
  constexpr int steps = 1000;
  const double eps = std::numeric_limits<TestType>::epsilon();
  for (StiefelSgd method : every_method) {
    method.lr = 0.1;
    for (const Shape& shape : every_shape) {
      Tensor<TestType> omega = to_tensor<TestType>(random_point(shape, 10));
      double worst = 0;
      for (int step = 0; step < steps; ++step) {
        const RowMajorMatrix gradient = random_matrix(shape, 100 + static_cast<std::uint64_t>(step));
        method.step(omega.view(), to_tensor<TestType>(gradient));
        worst = std::max(worst, distance_from_manifold(to_matrix(omega)));
      }
      // QR: Householder vectors give Q^T Q = I but for some M eps, however many steps went before. Cayley:
      // each step adds the rounding of its products and its solve, some sqrt(M) eps in the norm, and no step
      // takes it away; it adds up like a random walk. What one step adds grows with (lr |G|)^2, here 0.6.
      const double one_step = 8 * static_cast<double>(shape[1]) * eps;
      const double bound = method.retraction == Retraction::qr ? one_step : one_step * std::sqrt(steps);
      CAPTURE(to_string(shape), static_cast<int>(method.metric), static_cast<int>(method.retraction),
              worst / bound);
      CHECK(worst <= bound);
    }
  }
}

TEST_CASE("Descent finds the nearest point of the manifold (Procrustes)", "[stiefel]") {
  // |Omega - B|^2 / 2 is least at the polar factor of B. B = F S with S positive definite and symmetric has
  // the factor F; the gradient is Omega - B.
  for (const StiefelSgd& method : every_method) {
    const Shape shape{10, 4};
    const RowMajorMatrix factor = random_point(shape, 12);
    const RowMajorMatrix root = random_matrix({4, 4}, 13);
    const RowMajorMatrix b = factor * sum(identity(4), 0.25, root * transpose(root));
    RowMajorMatrix omega = random_point(shape, 14);
    // S has eigenvalues of at least 1, and they are the curvatures at the optimum, in pairs their mean: each
    // step leaves at most 1 - 0.1 of the error, 400 steps 5e-19.
    for (int step = 0; step < 400; ++step) omega = after_step(method, 0.1, omega, sum(omega, -1, b));
    CAPTURE(static_cast<int>(method.metric), static_cast<int>(method.retraction));
    CHECK(norm(sum(omega, -1, factor)) <= few_products_rounding);
  }
}

TEST_CASE("Descent finds eigenvectors in order (Brockett)", "[stiefel]") {
  // tr(Omega^T A Omega D) / 2 with A = diag(1, 2, .., 8) and D = diag(3, 2, 1) is least at the first three
  // unit vectors, up to signs: (3 * 1 + 2 * 2 + 1 * 3) / 2 = 5. The gradient is A Omega D.
  for (const StiefelSgd& method : every_method) {
    RowMajorMatrix omega = random_point({8, 3}, 15);
    const auto gradient = [](const RowMajorMatrix& at) {
      RowMajorMatrix result = at;
      for (Index i = 0; i < 8; ++i) {
        for (Index j = 0; j < 3; ++j) result(i, j) *= static_cast<double>((i + 1) * (3 - j));
      }
      return result;
    };
    double loss = inner(omega, gradient(omega)) / 2;
    for (int step = 0; step < 1000; ++step) {
      omega = after_step(method, 0.05, omega, gradient(omega));
      const double next = inner(omega, gradient(omega)) / 2;
      // Never up: 0.05 is below 2 over the largest curvature, 3 * 8. Rounding of a loss below
      // 24 is allowed for.
      REQUIRE(next <= loss + 24 * few_products_rounding);
      loss = next;
    }
    CAPTURE(static_cast<int>(method.metric), static_cast<int>(method.retraction));
    CHECK(std::abs(loss - 5) <= few_products_rounding);
    for (Index j = 0; j < 3; ++j) CHECK(std::abs(std::abs(omega(j, j)) - 1) <= few_products_rounding);
  }
}

TEMPLATE_TEST_CASE("A zero gradient stays where it is, the signs of all columns included", "[stiefel]", float,
                   double) {
  for (const StiefelSgd& method : every_method) {
    for (const Shape& shape : every_shape) {
      const RowMajorMatrix start = random_point(shape, 16);
      Tensor<TestType> omega = to_tensor<TestType>(start);
      const Tensor<TestType> zero(shape);
      method.step(omega.view(), zero);
      // Rounding to T, and for qr a factorization: a few eps a column.
      const double bound = 8 * static_cast<double>(shape[1]) * std::numeric_limits<TestType>::epsilon();
      CHECK(norm(sum(to_matrix(omega), -1, start)) <= bound);
    }
  }
}

TEST_CASE("Float steps are double steps, rounded", "[stiefel]") {
  for (StiefelSgd method : every_method) {
    method.lr = 0.1;
    const RowMajorMatrix start = random_point({13, 4}, 17);
    const RowMajorMatrix gradient = random_matrix({13, 4}, 18);
    Tensor<float> omega = to_tensor<float>(start);
    method.step(omega.view(), to_tensor<float>(gradient));
    // Inputs of norm 2 and lr |G| = 0.7, each rounded to 6e-8, and some ten operations on the way.
    CHECK(norm(sum(to_matrix(omega), -1, after_step(method, 0.1, start, gradient))) <= 2e-6);
  }
}

TEST_CASE("Wrong shapes and values are errors that leave omega alone", "[stiefel]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor<double> omega = to_tensor<double>(random_point({5, 2}, 19));
  const Tensor<double> before = omega.copy();
  Tensor<double> gradient(Shape{5, 2});
  Tensor<double> wide(Shape{2, 5});
  Tensor<double> flat(Shape{10});
  for (const StiefelSgd& method : every_method) {
    CHECK_THROWS_AS(method.step(wide.view(), wide), ShapeError);
    CHECK_THROWS_AS(method.step(flat.view(), flat), ShapeError);
    CHECK_THROWS_AS(method.step(omega.view(), wide), ShapeError);
    CHECK_THROWS_AS(method.riemannian_gradient(omega, gradient, wide.view()), ShapeError);
    for (const double lr : {0.0, -1.0, nan}) {
      StiefelSgd wrong = method;
      wrong.lr = lr;
      CHECK_THROWS_AS(wrong.step(omega.view(), gradient), ValueError);
    }
    gradient(3, 1) = nan;
    CHECK_THROWS_AS(method.step(omega.view(), gradient), ValueError);
    gradient(3, 1) = 0;
  }
  CHECK(std::equal(omega.begin(), omega.end(), before.begin()));
}
