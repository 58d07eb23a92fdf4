// Products against the triple loop, at sizes around every block and register border.

#include "linalg/gemm.hpp"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "linalg/packed_matrix.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

/// A column-major matrix with `padding` rows of NaN below each column.
template <class T>
struct Padded {
  Tensor<T> memory;
  MatrixView<T> view;

  Padded(Index rows, Index cols, Index padding, std::uint64_t seed)
      : memory(normal_tensor<T>({cols, rows + padding}, seed)),
        view(memory.data(), rows, cols, rows + padding) {
    for (Index j = 0; j < cols; ++j) {
      for (Index i = rows; i < rows + padding; ++i) view(i, j) = static_cast<T>(quiet_nan);
    }
  }
  bool padding_is_whole() const {
    for (Index j = 0; j < view.cols; ++j) {
      for (Index i = view.rows; i < view.stride; ++i) {
        if (!std::isnan(view(i, j))) return false;
      }
    }
    return true;
  }
};

/// Checks c = alpha a b + beta c_before, entry by entry, in units of what rounding makes of the sums of
/// magnitudes.
template <class T>
bool is_product(double alpha, const Operand<T>& a, const Operand<T>& b, double beta, const Padded<T>& before,
                const Padded<T>& c) {
  const auto entry = [](const Operand<T>& m, Index i, Index j) {
    return static_cast<double>(m.is_transposed ? m.matrix(j, i) : m.matrix(i, j));
  };
  for (Index j = 0; j < c.view.cols; ++j) {
    for (Index i = 0; i < c.view.rows; ++i) {
      double sum = 0, magnitude = 0;
      for (Index k = 0; k < a.cols(); ++k) {
        const double term = alpha * entry(a, i, k) * entry(b, k, j);
        sum += term;
        magnitude += std::abs(term);
      }
      if (beta != 0) {
        sum += beta * static_cast<double>(before.view(i, j));
        magnitude += std::abs(beta * static_cast<double>(before.view(i, j)));
      }
      const double bound = tolerance::rounding<T>(a.cols()) * magnitude;
      if (!(std::abs(static_cast<double>(c.view(i, j)) - sum) <= bound)) return false;
    }
  }
  return true;
}

struct GemmSizes {
  Index m, n, k;
};

template <class T>
void check_gemm(const GemmSizes& s, bool a_transposed, bool b_transposed, double alpha, double beta) {
  CAPTURE(s.m, s.n, s.k, a_transposed, b_transposed, alpha, beta);
  const Padded<T> a(a_transposed ? s.k : s.m, a_transposed ? s.m : s.k, 3, 1);
  const Padded<T> b(b_transposed ? s.n : s.k, b_transposed ? s.k : s.n, 5, 2);
  Padded<T> before(s.m, s.n, 2, 3), c(s.m, s.n, 2, 3);
  if (beta == 0) {
    for (Index j = 0; j < s.n; ++j) {
      for (Index i = 0; i < s.m; ++i) c.view(i, j) = static_cast<T>(quiet_nan);
    }
  }
  const Operand<T> left(a.view, a_transposed), right(b.view, b_transposed);
  gemm<T>(static_cast<T>(alpha), left, right, static_cast<T>(beta), c.view);
  CHECK(is_product(alpha, left, right, beta, before, c));
  CHECK(c.padding_is_whole());
}

TEMPLATE_TEST_CASE("gemm is the triple loop", "[linalg]", float, double) {
  for (const GemmSizes s :
       {GemmSizes{1, 1, 1}, GemmSizes{3, 1, 7}, GemmSizes{1, 5, 2}, GemmSizes{7, 9, 11},
        GemmSizes{16, 16, 16}, GemmSizes{17, 15, 33}, GemmSizes{49, 4, 1}, GemmSizes{65, 66, 67},
        GemmSizes{130, 70, 20}, GemmSizes{5, 300, 40}, GemmSizes{20, 9, 1200},
        // Thin products, around their blocks: their columns are in groups of 64, blocks of 256, pairs.
        GemmSizes{1, 64, 64}, GemmSizes{10, 67, 2100}, GemmSizes{7, 321, 259}, GemmSizes{32, 65, 66}}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        check_gemm<TestType>(s, a_transposed, b_transposed, 1, 0);
        check_gemm<TestType>(s, a_transposed, b_transposed, -2.5, 1);
        check_gemm<TestType>(s, a_transposed, b_transposed, 0.5, -3);
      }
    }
  }
}

TEMPLATE_TEST_CASE("gemm of nothing", "[linalg]", float, double) {
  for (const double beta : {0.0, 1.0, -2.0}) {
    check_gemm<TestType>({0, 5, 3}, false, false, 1, beta);
    check_gemm<TestType>({5, 0, 3}, false, true, 1, beta);
    // An empty sum: c is scaled alone.
    check_gemm<TestType>({4, 5, 0}, false, false, 1, beta);
    check_gemm<TestType>({4, 5, 0}, true, true, 1, beta);
    check_gemm<TestType>({100, 110, 0}, false, false, 1, beta);
    check_gemm<TestType>({100, 0, 110}, false, false, 1, beta);
    check_gemm<TestType>({0, 100, 110}, false, false, 1, beta);
  }
}

TEMPLATE_TEST_CASE("gemm gives the same bits with any number of threads", "[linalg]", float, double) {
  const int threads_before = thread_count();
  for (const GemmSizes s : {GemmSizes{193, 190, 129}, GemmSizes{190, 193, 700}, GemmSizes{48, 1000, 31},
                            GemmSizes{1000, 3, 200}, GemmSizes{10, 411, 300}}) {
    for (const auto& [a_transposed, b_transposed] :
         {std::pair(false, true), std::pair(true, true), std::pair(false, false)}) {
      CAPTURE(s.m, s.n, s.k, a_transposed, b_transposed);
      const Padded<TestType> a(a_transposed ? s.k : s.m, a_transposed ? s.m : s.k, 0, 4),
          b(b_transposed ? s.n : s.k, b_transposed ? s.k : s.n, 0, 5);
      Tensor<TestType> alone({s.n, s.m}), together({s.n, s.m});
      const Operand<TestType> left(a.view, a_transposed), right(b.view, b_transposed);
      set_thread_count(1);
      gemm<TestType>(1, left, right, 0, columns_of(alone));
      for (const int threads : {2, 3, 5}) {
        set_thread_count(threads);
        gemm<TestType>(1, left, right, 0, columns_of(together));
        CHECK(equal(together, alone));
      }
    }
  }
  set_thread_count(threads_before);
}

TEMPLATE_TEST_CASE("a packed matrix multiplies as the matrix does", "[linalg]", float, double) {
  using T = TestType;
  PackedMatrix<T> packed;  // packed anew each time
  for (const GemmSizes s : {GemmSizes{1, 1, 1}, GemmSizes{7, 5, 3}, GemmSizes{193, 17, 190},
                            GemmSizes{5, 600, 9}, GemmSizes{48, 4, 1500}, GemmSizes{700, 3, 20},
                            GemmSizes{4, 0, 6}, GemmSizes{6, 3, 0}, GemmSizes{2, 1, 2}}) {
    for (const bool is_transposed : {false, true}) {
      for (const double alpha : {1.0, -0.5}) {
        CAPTURE(s.m, s.n, s.k, is_transposed, alpha);
        const Padded<T> a(is_transposed ? s.k : s.m, is_transposed ? s.m : s.k, 3, 6), b(s.k, s.n, 2, 7);
        Padded<T> before(s.m, s.n, 1, 8), c(s.m, s.n, 1, 8);
        const Operand<T> left(a.view, is_transposed);
        packed.pack(left);
        CHECK(packed.rows() == s.m);
        CHECK(packed.cols() == s.k);
        packed.multiply_add(static_cast<T>(alpha), b.view, c.view);
        CHECK(is_product<T>(alpha, left, Operand<T>(b.view), 1, before, c));
        CHECK(c.padding_is_whole());
      }
    }
  }
}

TEMPLATE_TEST_CASE("columns of a packed product do not depend on where a group of columns is cut", "[linalg]",
                   float, double) {
  using T = TestType;
  const Index m = 61, k = GENERATE(40, 900), n = 300;
  const Padded<T> a(m, k, 0, 9), b(k, n, 0, 10);
  PackedMatrix<T> packed;
  packed.pack(Operand<T>(a.view));
  Tensor<T> whole({n, m});
  packed.multiply_add(1, b.view, columns_of(whole));
  for (const Index first : {16, 48, 256, 288}) {
    for (const Index count : {Index{16}, n - first}) {
      if (first + count > n) continue;
      CAPTURE(first, count);
      Tensor<T> part({count, m});
      packed.multiply_add(1, MatrixView<const T>(b.view).columns(first, count), columns_of(part));
      CHECK(equal(part, whole.view().slice(first, count)));
    }
  }
}

}  // namespace
}  // namespace orthornn::testing
