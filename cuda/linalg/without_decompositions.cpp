// What stands for decompositions.cpp where the libraries lack its functions: cmake/cuda.cmake says where.

#include "cuda/linalg/decompositions.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError("this build decomposes no symmetric matrices on a GPU; expected one with cuSOLVER");
}

}  // namespace

bool has_decompositions() { return false; }

template <class T>
void invert_cholesky_factor(MatrixView<T>, MatrixView<T>) {
  refuse();
}

void symmetric_eigenvectors(MatrixView<double>, double*) { refuse(); }

template void invert_cholesky_factor<float>(MatrixView<float>, MatrixView<float>);
template void invert_cholesky_factor<double>(MatrixView<double>, MatrixView<double>);

}  // namespace orthornn::cuda
