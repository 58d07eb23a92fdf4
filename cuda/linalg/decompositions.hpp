#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// Whether the libraries have what follows.
bool has_decompositions();

/// As orthornn::invert_cholesky_factor, by cuSOLVER and cuBLAS. Does not wait, unless cuSOLVER needs memory
/// of the host. That a matrix is not positive definite is not read back: the result is then not finite.
template <class T>
void invert_cholesky_factor(MatrixView<T> a, MatrixView<T> workspace);

/// As orthornn::SymmetricEigenvectors::replace, by cuSOLVER. May wait.
void symmetric_eigenvectors(MatrixView<double> a, double* eigenvalues);

}  // namespace orthornn::cuda
