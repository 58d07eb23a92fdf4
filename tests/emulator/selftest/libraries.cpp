#include <cublas_v2.h>
#include <cusolverDn.h>

#include <cmath>
#include <random>

#include "support.hpp"

namespace {

template <class T>
std::vector<T> random_values(std::size_t size, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values(size);
  for (T& value : values) value = static_cast<T>(normal(engine));
  return values;
}

template <class T>
constexpr cudaDataType type = sizeof(T) == 8 ? CUDA_R_64F : CUDA_R_32F;

struct Handle {
  Handle() {
    REQUIRE(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cusolverDnCreate(&solver) == CUSOLVER_STATUS_SUCCESS);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    cublasDestroy(blas);
    cusolverDnDestroy(solver);
  }
  cublasHandle_t blas = nullptr;
  cusolverDnHandle_t solver = nullptr;
};

}  // namespace

TEMPLATE_TEST_CASE("gemm multiplies what is transposed or not, by columns", "", float, double) {
  using T = TestType;
  const Handle handle;
  const std::int64_t m = 5, n = 4, k = 3, ld = 7;
  const auto a = random_values<T>(ld * 5, 1), b = random_values<T>(ld * 5, 2);
  const DeviceVector a_device(a), b_device(b);
  const auto transa = GENERATE(CUBLAS_OP_N, CUBLAS_OP_T), transb = GENERATE(CUBLAS_OP_N, CUBLAS_OP_T);
  const DeviceVector<T> c(ld * n);  // not a number, and not to be read
  const T alpha = 2, zero = 0;
  const auto compute = sizeof(T) == 8 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
  REQUIRE(cublasGemmEx_64(handle.blas, transa, transb, m, n, k, &alpha, a_device.data(), type<T>, ld,
                          b_device.data(), type<T>, ld, &zero, c.data(), type<T>, ld, compute,
                          CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  const auto values = c.values();
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += 2.0 * static_cast<double>(a[transa == CUBLAS_OP_N ? i + l * ld : l + i * ld]) *
               static_cast<double>(b[transb == CUBLAS_OP_N ? l + j * ld : j + l * ld]);
      }
      CHECK(static_cast<double>(values[i + j * ld]) == Approx(sum).margin(1e-5));
    }
  }
  CHECK(std::isnan(values[6]));  // between the columns
}

TEST_CASE("gemm of tf32, and what it refuses") {
  const Handle handle;
  const float one = 1, zero = 0;
  const DeviceVector x(std::vector(16, 1.0F + 0x1p-12F));
  const DeviceVector<float> sums(16);
  const auto multiply = [&](std::int64_t m, std::int64_t n, std::int64_t lda, cudaDataType b_type,
                            cublasComputeType_t compute) {
    return cublasGemmEx_64(handle.blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, 4, &one, x.data(), CUDA_R_32F, lda,
                           x.data(), b_type, 4, &zero, sums.data(), CUDA_R_32F, 4, compute,
                           CUBLAS_GEMM_DEFAULT);
  };
  REQUIRE(multiply(4, 4, 4, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32) == CUBLAS_STATUS_SUCCESS);
  CHECK(sums.values()[5] == 4.0F);

  CHECK(multiply(4, 4, 3, CUDA_R_32F, CUBLAS_COMPUTE_32F) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(multiply(-1, 4, 4, CUDA_R_32F, CUBLAS_COMPUTE_32F) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(multiply(4, 4, 4, CUDA_R_64F, CUBLAS_COMPUTE_32F) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK_THAT(last_words([&] { multiply(4, 5, 4, CUDA_R_32F, CUBLAS_COMPUTE_32F); }),
             contains("reaches beyond the end of device memory"));
}

TEST_CASE("gemm in batches") {
  const Handle handle;
  const DeviceVector x(std::vector{2.0, 3.0, 4.0}), y(std::vector{1.0, 1.0, 1.0});
  const double two = 2, one = 1;
  REQUIRE(cublasDgemmStridedBatched_64(handle.blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &two, x.data(), 1, 2,
                                       x.data(), 1, 1, &one, y.data(), 1, 2, 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(y.values() == std::vector{9.0, 1.0, 25.0});
}

TEMPLATE_TEST_CASE("cuSOLVER factorises and solves", "", float, double) {
  using T = TestType;
  const Handle handle;
  const int n = 6;
  const auto a = random_values<T>(n * n, 7), x = random_values<T>(n, 8);
  const DeviceVector<char> buffer(1 << 14);
  const DeviceVector<std::int64_t> pivots(n);
  const DeviceVector<int> info(1);
  const auto trans = GENERATE(CUBLAS_OP_N, CUBLAS_OP_T);
  std::vector<T> b(n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) b[i] += a[trans == CUBLAS_OP_N ? i + j * n : j + i * n] * x[j];
  }
  const DeviceVector factors(a), right(b);
  REQUIRE(cusolverDnXgetrf(handle.solver, nullptr, n, n, type<T>, factors.data(), n, pivots.data(), type<T>,
                           buffer.data(), 1 << 14, nullptr, 0, info.data()) == CUSOLVER_STATUS_SUCCESS);
  CHECK(info.values()[0] == 0);
  REQUIRE(cusolverDnXgetrs(handle.solver, nullptr, trans, n, 1, type<T>, factors.data(), n, pivots.data(),
                           type<T>, right.data(), n, info.data()) == CUSOLVER_STATUS_SUCCESS);
  const auto solution = right.values();
  for (int i = 0; i < n; ++i) CHECK(solution[i] == Approx(x[i]).margin(1e-4));
}
