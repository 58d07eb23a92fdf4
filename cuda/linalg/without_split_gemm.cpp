// The functions of split_gemm.cu in builds without its kernels. cmake/cuda.cmake says which builds these are.

#include "cuda/linalg/split_gemm.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {

bool takes_split_gemm(Device, Index, Index, Index) { return false; }

void split_gemm(float, MatrixView<const float>, MatrixView<const float>, float, MatrixView<float>,
                Precision) {
  throw DeviceError("this build has no products of sums of bfloat16; expected one for a GPU");
}

}  // namespace orthornn::cuda
