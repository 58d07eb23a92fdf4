#pragma once

#include "orthornn/core/device.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {

/// True when the bodies in cuda/ are part of this build. Every operation that has two bodies begins
///
///     if constexpr (has_cuda_bodies) {
///       if (c.device.is_cuda()) return cuda::gemm<T>(alpha, a, b, beta, c);
///     }
///
/// and continues with the CPU body. An operation makes this choice itself, so that its callers do not make
/// it.
#ifdef ORTHORNN_WITH_CUDA
inline constexpr bool has_cuda_bodies = true;
#else
inline constexpr bool has_cuda_bodies = false;
#endif

}  // namespace orthornn
