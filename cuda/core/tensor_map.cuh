#pragma once
// Matrices that the tensor memory accelerator (TMA) reads as boxes. Needs compute capability 9.0.

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <string>

#include "cuda/core/check.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

using EncodeTensorMap = decltype(cuTensorMapEncodeTiled);

/// The driver's function, without linking the driver.
inline EncodeTensorMap* encode_tensor_map() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  constexpr unsigned since = 12'000;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, since, cudaEnableDefault,
                                         &found));
#else
  check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found));
#endif
  if (found != cudaDriverEntryPointSuccess) {
    throw DeviceError(
        "the driver of the GPU has no function cuTensorMapEncodeTiled, which drivers for CUDA 12 have; "
        "install a newer driver");
  }
  return reinterpret_cast<EncodeTensorMap*>(function);
}

/// A map of a matrix whose columns begin at multiples of 16 bytes: boxes of `box_columns` columns and
/// `box_rows` rows, a multiple of four. Boxes begin at rows that are multiples of four: others stopped the
/// kernel with an error. What a box has beyond the matrix is 0.
///
/// In shared memory columns of a box lie one after another. With CU_TENSOR_MAP_SWIZZLE_128B they have 32
/// rows, and vector v of 16 bytes of column k lies at v ^ (k % 8) if the box begins at a multiple of 1024
/// bytes. Throws DeviceError if the driver knows no tensor maps, or refuses this one.
inline CUtensorMap tensor_map(const MatrixView<const float>& m, int box_rows, int box_columns,
                              CUtensorMapSwizzle swizzle) {
  static EncodeTensorMap* const encode = encode_tensor_map();
  CUtensorMap map;
  const std::array<cuuint64_t, 2> sizes{static_cast<cuuint64_t>(m.rows), static_cast<cuuint64_t>(m.cols)};
  const std::array<cuuint64_t, 1> strides{static_cast<cuuint64_t>(m.stride) * sizeof(float)};
  const std::array<cuuint32_t, 2> box{static_cast<cuuint32_t>(box_rows),
                                      static_cast<cuuint32_t>(box_columns)},
      steps{1, 1};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float*>(m.data), sizes.data(),
             strides.data(), box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw DeviceError("cuTensorMapEncodeTiled failed with status " +
                      std::to_string(static_cast<int>(status)));
  return map;
}

}  // namespace orthornn::cuda
