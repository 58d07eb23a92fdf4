// Products with matrices that are kept, and elementwise operations, on views with gaps between columns.

#include <initializer_list>

#include "linalg/elementwise.hpp"
#include "linalg/packed_matrix.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

TEMPLATE_TEST_CASE("a matrix that is kept on a GPU multiplies as on the CPU", "[linalg][cuda]", float,
                   double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  struct Sizes {
    Index m, n, k;
  };
  PackedMatrix<T> packed;  // packed anew each time
  for (const Sizes s : {Sizes{1, 1, 1}, Sizes{7, 5, 3}, Sizes{33, 17, 40}, Sizes{4, 0, 6}, Sizes{2, 1, 2}}) {
    for (const bool is_transposed : {false, true}) {
      CAPTURE(s.m, s.n, s.k, is_transposed);
      // Two rows more than the view has.
      const Tensor<T> a = normal_tensor<T>({is_transposed ? s.m : s.k, (is_transposed ? s.k : s.m) + 2}, 1);
      const Tensor<T> b = normal_tensor<T>({s.n, s.k}, 2), before = normal_tensor<T>({s.n, s.m}, 3);
      const auto part = [&](const Tensor<T>& x) {
        return Operand<T>(columns_of(x).block(0, 0, is_transposed ? s.k : s.m, x.shape()[0]), is_transposed);
      };
      PackedMatrix<T> on_cpu;
      on_cpu.pack(part(a));
      Tensor<T> sum = before.copy(), product = before.copy();
      on_cpu.multiply_add(T(-0.5), columns_of(b), columns_of(sum));
      on_cpu.multiply(2, columns_of(b), columns_of(product));

      const Tensor<T> there_a = a.copy(*device), there_b = b.copy(*device);
      Tensor<T> found_sum = before.copy(*device), found_product = before.copy(*device);
      packed.pack(part(there_a));
      CHECK(packed.rows() == s.m);
      CHECK(packed.cols() == s.k);
      packed.multiply_add(T(-0.5), columns_of(there_b), columns_of(found_sum));
      packed.multiply(2, columns_of(there_b), columns_of(found_product));
      CHECK(relative_error(found_sum.copy(Device::cpu()), sum) <= tolerance::rounding<T>(s.k));
      CHECK(relative_error(found_product.copy(Device::cpu()), product) <= tolerance::rounding<T>(s.k));
    }
  }
}

TEMPLATE_TEST_CASE("elementwise operations on a GPU are those of the CPU", "[linalg][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {40, 33}, {33, 7}, {64, 64}, {3, 0}}) {
    CAPTURE(rows, cols);
    const Tensor<T> x = normal_tensor<T>({cols, rows + 1}, 4);
    Tensor<T> y = normal_tensor<T>({cols, rows + 2}, 5), transpose = normal_tensor<T>({rows, cols + 3}, 6);
    const Tensor<T> there_x = x.copy(*device);
    Tensor<T> there_y = y.copy(*device), there_transpose = transpose.copy(*device);
    const auto run = [rows = rows, cols = cols](const Tensor<T>& from, Tensor<T>& to, Tensor<T>& turned) {
      add(columns_of(from).block(0, 0, rows, cols), columns_of(to).block(0, 0, rows, cols));
      add_to_diagonal(columns_of(to).block(0, 0, rows, cols), T(3));
      copy_transposed(columns_of(from).block(0, 0, rows, cols), columns_of(turned).block(0, 0, cols, rows));
    };
    run(x, y, transpose);
    run(there_x, there_y, there_transpose);
    CHECK(equal(there_y.copy(Device::cpu()), y));
    CHECK(equal(there_transpose.copy(Device::cpu()), transpose));
  }
}

}  // namespace
}  // namespace orthornn::testing
