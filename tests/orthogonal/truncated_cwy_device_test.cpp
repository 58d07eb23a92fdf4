#include "orthornn/core/error.hpp"
#include "orthornn/orthogonal/truncated_cwy.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

TEMPLATE_TEST_CASE("T-CWY on a GPU is that of the CPU", "[orthogonal][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  const auto [n, m] =
      GENERATE(std::pair<Index, Index>{1, 1}, std::pair<Index, Index>{7, 3}, std::pair<Index, Index>{64, 17},
               std::pair<Index, Index>{100, 65}, std::pair<Index, Index>{70, 70});
  CAPTURE(n, m);
  TruncatedCwy<double> oracle(n, m);
  TruncatedCwy<T> found(n, m, *device);
  Tensor<float> v({m, n});
  TruncatedCwy<float>(n, m).initialize(1, v);
  oracle.prepare(cast<double>(v));
  found.prepare(cast<T>(v).copy(*device));
  const double bound = 4 * tolerance::rounding<T>(n);
  CHECK(relative_error(found.materialize().copy(Device::cpu()), oracle.materialize()) <= bound);

  const Tensor<float> x = normal_tensor<float>({5, m}, 2);
  Tensor<double> y({5, n}), back({5, m});
  Tensor<T> there_y(Shape{5, n}, *device), there_back(Shape{5, m}, *device);
  oracle.apply(cast<double>(x), y);
  oracle.apply_transpose(y, back);
  found.apply(cast<T>(x).copy(*device), there_y);
  found.apply_transpose(there_y, there_back);
  CHECK(relative_error(there_y.copy(Device::cpu()), y) <= bound);
  CHECK(relative_error(there_back.copy(Device::cpu()), back) <= bound);

  const Tensor<float> d_omega = normal_tensor<float>({n, m}, 3);
  Tensor<double> gradient({m, n});
  Tensor<T> there_gradient(Shape{m, n}, *device);
  oracle.backward(cast<double>(d_omega), gradient);
  found.backward(cast<T>(d_omega).copy(*device), there_gradient);
  Tensor<double> difference = cast<double>(there_gradient.copy(Device::cpu()));
  for (Index i = 0; i < gradient.size(); ++i) difference.data()[i] -= gradient.data()[i];
  CHECK(frobenius_norm(difference) <= bound * frobenius_norm(d_omega));
}

TEMPLATE_TEST_CASE("a seed gives the same T-CWY vectors on every device", "[orthogonal][cuda]", float,
                   double) {
  const auto device = gpu();
  if (!device) return;
  Tensor<TestType> here({4, 9}), there(Shape{4, 9}, *device);
  TruncatedCwy<TestType>(9, 4).initialize(5, here);
  TruncatedCwy<TestType>(9, 4, *device).initialize(5, there);
  CHECK(equal(there.copy(Device::cpu()), here));
}

TEST_CASE("T-CWY on a GPU refuses bad vectors when somebody waits", "[orthogonal][cuda][errors]") {
  const auto device = gpu();
  if (!device) return;
  TruncatedCwy<float> stiefel(9, 4, *device);
  Tensor<float> v = normal_tensor<float>({4, 9}, 6);
  for (Index i = 0; i < 9; ++i) v(3, i) = 0;
  CHECK_THROWS_AS(stiefel.prepare(v), DeviceError);
  const Tensor<float> there = v.copy(*device);
  stiefel.prepare(there);
  check_says<ValueError>([&] { synchronize(*device); }, {"reflection vector 3", "zero"});
}

}  // namespace
}  // namespace orthornn::testing
