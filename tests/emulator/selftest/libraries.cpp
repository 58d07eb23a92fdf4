#include <cublas_v2.h>
#include <cuda_bf16.h>
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

TEST_CASE("gemm of bf16 and of tf32, and in batches") {
  const Handle handle;
  const DeviceVector halves(std::vector<__nv_bfloat16>(16, 1.5F));
  const DeviceVector<float> sums(16);
  const float one = 1, zero = 0;
  REQUIRE(cublasGemmEx_64(handle.blas, CUBLAS_OP_N, CUBLAS_OP_T, 4, 4, 4, &one, halves.data(), CUDA_R_16BF, 4,
                          halves.data(), CUDA_R_16BF, 4, &zero, sums.data(), CUDA_R_32F, 4,
                          CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  CHECK(sums.values()[5] == 9.0F);

  const DeviceVector x(std::vector{1.0F + 0x1p-12F, 3.0F});
  REQUIRE(cublasGemmStridedBatchedEx_64(handle.blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, x.data(),
                                        CUDA_R_32F, 1, 1, x.data(), CUDA_R_32F, 1, 1, &zero, sums.data(),
                                        CUDA_R_32F, 1, 1, 2, CUBLAS_COMPUTE_32F_FAST_TF32,
                                        CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  CHECK(sums.values()[0] == 1.0F);
  CHECK(sums.values()[1] == 9.0F);

  CHECK(cublasSgemm_64(handle.blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, sums.data(), 3, sums.data(), 4,
                       &zero, sums.data(), 4) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSgemm_64(handle.blas, CUBLAS_OP_N, CUBLAS_OP_N, -1, 4, 4, &one, sums.data(), 4, sums.data(), 4,
                       &zero, sums.data(), 4) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK_THAT(last_words([&] {
               cublasSgemm_64(handle.blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, 5, 4, &one, sums.data(), 4,
                              sums.data(), 4, &zero, sums.data(), 4);
             }),
             Catch::Matchers::Contains("reaches beyond the end of device memory"));
}

TEMPLATE_TEST_CASE("The other functions of cuBLAS", "", float, double) {
  using T = TestType;
  const Handle handle;
  const auto matrix = std::vector<T>{2, 1, 0, 3};  // columns (2, 1) and (0, 3): lower triangular
  const DeviceVector a(matrix), b(std::vector<T>{2, 7, 4, 8}), c(std::vector<T>(4)),
      x(std::vector<T>{10, 20});
  const DeviceVector<T> y(2);
  const T one = 1, two = 2, zero = 0;
  constexpr bool single = sizeof(T) == 4;
  const auto call = [](auto s, auto d, auto... arguments) {
    if constexpr (single) {
      return s(arguments...);
    } else {
      return d(arguments...);
    }
  };
  REQUIRE(call(cublasSgeam_64, cublasDgeam_64, handle.blas, CUBLAS_OP_T, CUBLAS_OP_N, 2, 2, &one, a.data(), 2,
               &two, b.data(), 2, c.data(), 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(c.values() == std::vector<T>{6, 14, 9, 19});
  REQUIRE(call(cublasSgemv_64, cublasDgemv_64, handle.blas, CUBLAS_OP_N, 2, 2, &one, a.data(), 2, x.data(), 1,
               &zero, y.data(), 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(y.values() == std::vector<T>{20, 70});
  REQUIRE(call(cublasSgemv_64, cublasDgemv_64, handle.blas, CUBLAS_OP_T, 2, 2, &two, a.data(), 2, x.data(), 1,
               &one, y.data(), 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(y.values() == std::vector<T>{100, 190});
  REQUIRE(call(cublasSdgmm_64, cublasDdgmm_64, handle.blas, CUBLAS_SIDE_RIGHT, 2, 2, a.data(), 2, x.data(), 1,
               c.data(), 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(c.values() == std::vector<T>{20, 10, 0, 60});
  const auto trsm = [&](cublasSideMode_t side, cublasOperation_t op, cublasDiagType_t diagonal) {
    const DeviceVector right(std::vector<T>{2, 7, 4, 8});
    REQUIRE(call(cublasStrsm_64, cublasDtrsm_64, handle.blas, side, CUBLAS_FILL_MODE_LOWER, op, diagonal, 2,
                 2, &one, a.data(), 2, right.data(), 2) == CUBLAS_STATUS_SUCCESS);
    return right.values();
  };
  CHECK(trsm(CUBLAS_SIDE_LEFT, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT) == std::vector<T>{1, 2, 2, 2});
  CHECK(trsm(CUBLAS_SIDE_LEFT, CUBLAS_OP_T, CUBLAS_DIAG_UNIT) == std::vector<T>{-5, 7, -4, 8});
  CHECK(trsm(CUBLAS_SIDE_RIGHT, CUBLAS_OP_N, CUBLAS_DIAG_UNIT) == std::vector<T>{-2, -1, 4, 8});
  CHECK(trsm(CUBLAS_SIDE_RIGHT, CUBLAS_OP_T, CUBLAS_DIAG_UNIT) == std::vector<T>{2, 7, 2, 1});
}

TEMPLATE_TEST_CASE("cuSOLVER factorises, solves and inverts", "", float, double) {
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

  REQUIRE(cusolverDnXtrtri(handle.solver, CUBLAS_FILL_MODE_UPPER, CUBLAS_DIAG_NON_UNIT, 2, type<T>,
                           factors.data(), n, buffer.data(), 1 << 14, nullptr, 0,
                           info.data()) == CUSOLVER_STATUS_SUCCESS);
}

TEMPLATE_TEST_CASE("cuSOLVER inverts triangular matrices in place", "", float, double) {
  using T = TestType;
  const Handle handle;
  const DeviceVector a(
      std::vector<T>{2, 9, 3, 4});  // upper: (2 3; 0 4), and a 9 that is none of its business
  const DeviceVector<char> buffer(1 << 14);
  const DeviceVector<int> info(1);
  REQUIRE(cusolverDnXtrtri(handle.solver, CUBLAS_FILL_MODE_UPPER, CUBLAS_DIAG_NON_UNIT, 2, type<T>, a.data(),
                           2, buffer.data(), 1 << 14, nullptr, 0, info.data()) == CUSOLVER_STATUS_SUCCESS);
  CHECK(a.values() == std::vector<T>{T(0.5), 9, T(-0.375), T(0.25)});
}

TEMPLATE_TEST_CASE("cuSOLVER's QR gives an orthogonal basis", "", float, double) {
  using T = TestType;
  const Handle handle;
  const int m = 7, n = 4;
  const auto a = random_values<T>(m * n, 9);
  const DeviceVector q(a);
  const DeviceVector<T> tau(n), buffer(1 << 12);
  const DeviceVector<int> info(1);
  REQUIRE(cusolverDnXgeqrf(handle.solver, nullptr, m, n, type<T>, q.data(), m, type<T>, tau.data(), type<T>,
                           buffer.data(), sizeof(T) << 12, nullptr, 0,
                           info.data()) == CUSOLVER_STATUS_SUCCESS);
  const auto factors = q.values();
  if constexpr (sizeof(T) == 4) {
    REQUIRE(cusolverDnSorgqr(handle.solver, m, n, n, q.data(), m, tau.data(), buffer.data(), 1 << 12,
                             info.data()) == CUSOLVER_STATUS_SUCCESS);
  } else {
    REQUIRE(cusolverDnDorgqr(handle.solver, m, n, n, q.data(), m, tau.data(), buffer.data(), 1 << 12,
                             info.data()) == CUSOLVER_STATUS_SUCCESS);
  }
  const auto basis = q.values();
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      double product = 0;
      for (int l = 0; l < m; ++l)
        product += static_cast<double>(basis[l + i * m]) * static_cast<double>(basis[l + j * m]);
      CHECK(product == Approx(i == j ? 1 : 0).margin(1e-5));
    }
  }
  // Q R is what was factorised.
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double product = 0;
      for (int l = 0; l <= j; ++l) {
        product += static_cast<double>(basis[i + l * m]) * static_cast<double>(factors[l + j * m]);
      }
      CHECK(product == Approx(static_cast<double>(a[i + j * m])).margin(1e-5));
    }
  }
}
