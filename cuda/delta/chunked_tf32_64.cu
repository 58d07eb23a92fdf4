#include "cuda/delta/chunked_launches.cuh"

namespace orthornn::cuda {

template struct ChunkedKernels<FloatProduct<false>, 64>;

}  // namespace orthornn::cuda
