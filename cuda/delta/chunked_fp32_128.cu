#include "cuda/delta/chunked_launches.cuh"

namespace orthornn::cuda {

template struct ChunkedKernels<FloatProduct<true>, 128>;

}  // namespace orthornn::cuda
