#include "linalg/decompositions.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/back_end.hpp"
#include "cuda/linalg/decompositions.hpp"
#include "linalg/eigen_map.hpp"
#include "linalg/gemm.hpp"
#include "linalg/inverse.hpp"

namespace orthornn {
namespace {

/// a <- R in the upper triangle.
template <class T>
void cholesky_factor(MatrixView<T> a) {
  for (Index j = 0; j < a.cols; ++j) {
    for (Index i = 0; i <= j; ++i) {
      T rest = a(i, j);
      for (Index k = 0; k < i; ++k) rest -= a(k, i) * a(k, j);
      a(i, j) = i == j ? std::sqrt(rest) : rest / a(i, i);
    }
  }
}

template <class T>
void invert_factor(MatrixView<T> a, MatrixView<T> workspace) {
  constexpr Index unblocked = 32;
  const Index n = a.cols, n1 = n / 2, n2 = n - n1;
  if (n <= unblocked) {
    cholesky_factor(a);
    invert_upper_triangular(a);
    for (Index j = 0; j < n; ++j) std::fill(a.column(j) + j + 1, a.column(j) + n, T{0});
    return;
  }
  // [A B; . D] = R^T R with R = [P E; 0 F]: P^T P = A, E = P^-T B, F^T F = D - E^T E, and
  // R^-1 = [P^-1, -P^-1 E F^-1; 0, F^-1].
  const MatrixView<T> first = a.block(0, 0, n1, n1), off_diagonal = a.block(0, n1, n1, n2),
                      second = a.block(n1, n1, n2, n2);
  const MatrixView<T> e = workspace.block(0, n1, n1, n2), product = workspace.block(n1, 0, n2, n1);
  invert_factor(first, workspace.block(0, 0, n1, n1));
  gemm<T>(1, transposed(first), off_diagonal, 0, e);
  gemm<T>(-1, transposed(e), e, 1, second);
  invert_factor(second, workspace.block(n1, n1, n2, n2));
  gemm<T>(1, transposed(second), transposed(e), 0, product);  // (E F^-1)^T
  gemm<T>(-1, first, transposed(product), 0, off_diagonal);
  eigen(a.block(n1, 0, n2, n1)).setZero();
}

}  // namespace

bool has_decompositions(Device device) {
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) return cuda::has_decompositions();
  }
  return !device.is_cuda();
}

template <class T>
void invert_cholesky_factor(MatrixView<T> a, MatrixView<T> workspace) {
  if constexpr (has_cuda_bodies) {
    if (a.device.is_cuda()) return cuda::invert_cholesky_factor<T>(a, workspace);
  }
  invert_factor(a, workspace);
}

struct SymmetricEigenvectors::Solver {
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> on_host;
};

// The first matrix decides how much memory Eigen takes. To plan a workspace makes this object without a
// matrix.
SymmetricEigenvectors::SymmetricEigenvectors() : solver_(std::make_unique<Solver>()) {}

SymmetricEigenvectors::~SymmetricEigenvectors() = default;

void SymmetricEigenvectors::replace(MatrixView<double> a, double* eigenvalues) {
  if constexpr (has_cuda_bodies) {
    if (a.device.is_cuda()) return cuda::symmetric_eigenvectors(a, eigenvalues);
  }
  solver_->on_host.compute(eigen(a));
  // Eigenvalues that were not found are not in order, and no check of the smallest holds.
  if (solver_->on_host.info() != Eigen::Success) {
    std::fill_n(eigenvalues, a.cols, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  std::copy_n(solver_->on_host.eigenvalues().data(), a.cols, eigenvalues);
  eigen(a) = solver_->on_host.eigenvectors();
}

template void invert_cholesky_factor<float>(MatrixView<float>, MatrixView<float>);
template void invert_cholesky_factor<double>(MatrixView<double>, MatrixView<double>);

}  // namespace orthornn
