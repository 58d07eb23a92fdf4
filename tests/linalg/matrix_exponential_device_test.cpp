#include <cmath>
#include <initializer_list>

#include "linalg/matrix_exponential.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

TEMPLATE_TEST_CASE("the exponential on a GPU and its derivative are those of the CPU", "[linalg][cuda]",
                   float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  for (const Index n : {1, 7, 65}) {
    ExponentialOf<double> on_cpu(n);
    ExponentialOf<T> on_gpu(n, *device);
    // No squaring, a few and more, by a norm that one column decides on.
    for (const double norm : {0.05, 0.5, 2.0}) {
      CAPTURE(n, norm);
      Tensor<T> a = normal_tensor<T>({n, n}, 1, norm / static_cast<double>(n));
      for (Index i = 0; i < n; ++i) a(n - 1, i) *= T(8);
      const Tensor<T> e = normal_tensor<T>({n, n}, 2);
      Tensor<double> value({n, n}), derivative({n, n});
      const Tensor<double> exact_a = cast<double>(a), exact_e = cast<double>(e);
      on_cpu.value(columns_of(exact_a), columns_of(value));
      on_cpu.derivative(columns_of(exact_a), columns_of(exact_e), columns_of(derivative));
      const Tensor<T> there_a = a.copy(*device), there_e = e.copy(*device);
      Tensor<T> found(Shape{n, n}, *device), found_derivative(Shape{n, n}, *device);
      on_gpu.value(columns_of(there_a), columns_of(found));
      CHECK(on_gpu.squarings() == on_cpu.squarings());
      on_gpu.derivative(columns_of(there_a), columns_of(there_e), columns_of(found_derivative));
      const double bound = std::ldexp(tolerance::rounding<T>(n), on_cpu.squarings());
      CHECK(relative_error(found.copy(Device::cpu()), value) <= bound);
      CHECK(relative_error(found_derivative.copy(Device::cpu()), derivative) <= bound);
    }
  }
}

}  // namespace
}  // namespace orthornn::testing
