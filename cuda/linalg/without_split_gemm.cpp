// What stands for split_gemm.cu where its kernels are left out: cmake/cuda.cmake says where.

#include "cuda/linalg/split_gemm.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {

bool takes_split_gemm(Device, Index, Index, Index) { return false; }

void split_gemm(float, MatrixView<const float>, MatrixView<const float>, float, MatrixView<float>) {
  throw DeviceError("this build has no products of sums of bfloat16; expected one for a GPU");
}

}  // namespace orthornn::cuda
