#pragma once

namespace orthornn::cuda {

/// 90 where the current device has loaded kernels that were compiled for compute capability 9.0, as
/// __CUDA_ARCH__ was then; a GPU may be newer than its code.
int capability_of_loaded_code();

}  // namespace orthornn::cuda
