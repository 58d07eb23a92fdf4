#pragma once

#include <memory>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// Whether this build has what follows for matrices on a device. The emulator of GPUs has not.
bool has_decompositions(Device device);

/// Replaces the symmetric positive definite matrix `a`, of which the upper triangle is read, by R^-1, where
/// a = R^T R, and R is upper triangular with a positive diagonal (Cholesky). Entries below the diagonal
/// become 0. It allocates nothing: `workspace` has the size of `a`. It recurses on halves, so that nearly all
/// of the work is products; on a GPU cuSOLVER and cuBLAS do it. A matrix that is not positive definite gives
/// numbers that are not finite.
template <class T>
void invert_cholesky_factor(MatrixView<T> a, MatrixView<T> workspace);

/// Eigenvectors and eigenvalues of symmetric matrices [n, n] of doubles, in memory of the host that the first
/// of them takes.
class SymmetricEigenvectors {
 public:
  SymmetricEigenvectors();
  ~SymmetricEigenvectors();

  /// Replaces the symmetric matrix `a`, which has no gaps between columns and of which the lower triangle is
  /// read, by its eigenvectors, one a column, and writes the eigenvalues [n] in rising order. On a GPU
  /// cuSOLVER does it.
  void replace(MatrixView<double> a, double* eigenvalues);

 private:
  struct Solver;
  std::unique_ptr<Solver> solver_;
};

}  // namespace orthornn
