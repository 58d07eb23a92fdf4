// The functions of decompositions.cpp in builds whose libraries lack them. cmake/cuda.cmake says which builds
// these are.

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
