// The pieces of a product of reflections on a GPU, at sizes around the borders of their layouts.

#include <initializer_list>
#include <limits>

#include "linalg/elementwise.hpp"
#include "linalg/s_factor.hpp"
#include "orthogonal/reflectors.hpp"
#include "products/reflections.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"
#include "support/unit_vectors.hpp"

namespace orthornn::testing {
namespace {

/// Rows of `padded` scalars each of which the first N are the matrix: a column-major N x count with gaps.
template <class T>
struct WithGaps {
  Tensor<T> memory;
  Index rows;

  WithGaps(const Tensor<T>& x, Index gap, Device device) : rows(x.shape()[1]) {
    Tensor<T> host(Shape{x.shape()[0], rows + gap});
    for (T& value : host) value = std::numeric_limits<T>::quiet_NaN();
    for (Index j = 0; j < x.shape()[0]; ++j) {
      for (Index i = 0; i < rows; ++i) host(j, i) = x(j, i);
    }
    memory = host.copy(device);
  }
  MatrixView<T> view() { return columns_of(memory).block(0, 0, rows, memory.shape()[0]); }
  /// Throws away the gaps, which must not have been written to.
  Tensor<T> values() const {
    const Tensor<T> host = memory.copy(Device::cpu());
    Tensor<T> result(Shape{host.shape()[0], rows});
    for (Index j = 0; j < host.shape()[0]; ++j) {
      for (Index i = 0; i < host.shape()[1]; ++i) {
        if (i < rows) {
          result(j, i) = host(j, i);
        } else {
          REQUIRE(std::isnan(host(j, i)));
        }
      }
    }
    return result;
  }
};

template <class T>
void check_reflections(Index n, Index l, Index count, Device device) {
  CAPTURE(n, l, count, sizeof(T));
  const Tensor<T> u = unit_vectors<T>(l, n, 1);
  const Tensor<T> x = normal_tensor<T>({count, n}, 2), before = normal_tensor<T>({count, n}, 3);
  const Tensor<double> exact_u = cast<double>(u), exact_x = cast<double>(x);
  for (const ReflectionOrder order : {ReflectionOrder::first_to_last, ReflectionOrder::last_to_first}) {
    CAPTURE(order == ReflectionOrder::first_to_last);
    Tensor<double> expected = cast<double>(before), coefficients({count, l});
    reflect_tiles<double>(columns_of(exact_u), order, columns_of(exact_x), columns_of(expected),
                          columns_of(coefficients));
    WithGaps<T> there_u(u, 3, device), there_x(x, 1, device), c(normal_tensor<T>({count, l}, 4), 2, device);
    WithGaps<T> tiles(before, 5, device), rank_one(before, 5, device);
    reflect_tiles<T>(there_u.view(), order, there_x.view(), tiles.view(), c.view());
    reflect_by_rank_one_updates<T>(there_u.view(), order, there_x.view(), rank_one.view());
    CHECK(relative_error(tiles.values(), expected) <= tolerance::rounding<T>(n));
    CHECK(relative_error(c.values(), coefficients) <= tolerance::rounding<T>(n));
    CHECK(relative_error(rank_one.values(), expected) <= tolerance::rounding<T>(n));
  }
}

TEMPLATE_TEST_CASE("reflections one after another on a GPU", "[orthogonal][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  for (const Index n : {1, 2, 7, 63, 64, 65, 128, 129, 190, 192, 193, 257}) {
    check_reflections<TestType>(n, std::min<Index>(n, 5), 9, *device);
  }
  // Around what is loaded at a time.
  for (const Index l : {1, 9, 10, 11, 20, 21, 33, 64}) check_reflections<TestType>(100, l, 3, *device);
  for (const Index count : {1, 7, 8, 9, 17}) check_reflections<TestType>(20, 4, count, *device);
}

TEMPLATE_TEST_CASE("reflections of long vectors on a GPU", "[orthogonal][cuda][slow]", float, double) {
  const auto device = gpu();
  if (!device) return;
  // Beyond 8192 there is no layout left.
  for (const Index n : {512, 513, 1024, 1025, 4096, 4097, 8192, 8193}) {
    check_reflections<TestType>(n, 6, 3, *device);
  }
  check_reflections<TestType>(193, 193, 40, *device);
}

TEMPLATE_TEST_CASE("the gradient by rank-one updates on a GPU", "[orthogonal][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  const auto [n, l] = GENERATE(ReflectionSizes{1, 1}, ReflectionSizes{7, 7}, ReflectionSizes{33, 10});
  for (const Index count : {1, 40}) {
    CAPTURE(n, l, count);
    const Tensor<T> u = unit_vectors<T>(l, n, 4);
    const Tensor<T> g = normal_tensor<T>({count, n}, 5), x = normal_tensor<T>({count, n}, 6);
    Tensor<double> expected({l, n});
    const Tensor<double> exact_u = cast<double>(u), exact_g = cast<double>(g), exact_x = cast<double>(x);
    gradient_by_rank_one_updates<double>(columns_of(exact_u), columns_of(exact_g), columns_of(exact_x),
                                         columns_of(expected));
    const Tensor<T> there_u = u.copy(*device), there_g = g.copy(*device), there_x = x.copy(*device);
    Tensor<T> found = normal_tensor<T>({l, n}, 7).copy(*device);
    gradient_by_rank_one_updates<T>(columns_of(there_u), columns_of(there_g), columns_of(there_x),
                                    columns_of(found));
    CHECK(relative_error(found.copy(Device::cpu()), expected) <= tolerance::rounding<T>(n));
  }
}

template <class T>
void check_inverse_of_s(const Tensor<T>& u, Device device, double bound) {
  const Index l = u.shape()[0];
  CAPTURE(l, u.shape()[1], sizeof(T));
  Tensor<double> expected({l, l}), s({l, l});
  const Tensor<double> exact = cast<double>(u), identity = identity_matrix<double>(l);
  make_s_factor<double>(columns_of(exact), columns_of(s));
  times_s_inverse<double>(columns_of(identity), columns_of(std::as_const(s)), columns_of(expected));
  const Tensor<T> there = u.copy(device);
  Tensor<T> found(Shape{l, l}, device);
  make_s_factor<T>(columns_of(there), columns_of(found));
  CHECK(relative_error(found.copy(Device::cpu()), expected) <= bound);
  const Tensor<T> host = found.copy(Device::cpu());
  for (Index j = 0; j < l; ++j) {
    CHECK(host(j, j) == T(2));
    for (Index i = j + 1; i < l; ++i) REQUIRE(host(j, i) == T(0));
  }
}

TEMPLATE_TEST_CASE("the inverse of S on a GPU", "[orthogonal][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  const auto [n, l] =
      GENERATE(ReflectionSizes{1, 1}, ReflectionSizes{20, 17}, ReflectionSizes{64, 63},
               ReflectionSizes{80, 64}, ReflectionSizes{80, 65}, ReflectionSizes{200, 128},
               ReflectionSizes{200, 129}, ReflectionSizes{193, 193}, ReflectionSizes{300, 257});
  check_inverse_of_s(unit_vectors<T>(l, n, 8), *device, 4 * tolerance::rounding<T>(n));
}

TEMPLATE_TEST_CASE("small pieces on a GPU", "[orthogonal][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  for (const Index n : {1, 5, 33, 300}) {
    CAPTURE(n);
    // symmetrize_strict_upper, with a gap between columns.
    Tensor<T> m = normal_tensor<T>({n, n}, 10);
    WithGaps<T> there(m, 2, *device);
    symmetrize_strict_upper<T>(columns_of(m));
    symmetrize_strict_upper<T>(there.view());
    CHECK(equal(there.values(), m));

    // Normalisation and its backward, in place.
    const Tensor<T> v = normal_tensor<T>({4, n}, 11), du = normal_tensor<T>({4, n}, 12);
    Tensor<double> u({4, n}), norms({4}), dv({4, n});
    normalize_reflectors<double>(cast<double>(v), u, norms);
    backward_of_normalize<double>(u, norms, cast<double>(du), dv);
    Tensor<T> found_u(Shape{4, n}, *device), found_norms(Shape{4}, *device), found = du.copy(*device);
    normalize_reflectors<T>(v.copy(*device), found_u, found_norms);
    backward_of_normalize<T>(found_u, found_norms, found, found);
    CHECK(relative_error(found_u.copy(Device::cpu()), u) <= tolerance::rounding<T>(n));
    CHECK(relative_error(found_norms.copy(Device::cpu()), norms) <= tolerance::rounding<T>(n));
    Tensor<double> difference = cast<double>(found.copy(Device::cpu()));
    for (Index i = 0; i < dv.size(); ++i) difference.data()[i] -= dv.data()[i];
    CHECK(frobenius_norm(difference) <= tolerance::rounding<T>(n) * frobenius_norm(du));
  }
}

}  // namespace
}  // namespace orthornn::testing
