#include "cuda/delta/chunked_launches.cuh"

namespace orthornn::cuda {

template struct ChunkedKernels<FloatProduct<true>, 64>;
template struct ChunkedKernels<FloatProduct<true>, 128>;
template struct ChunkedKernels<FloatProduct<true>, 256>;

}  // namespace orthornn::cuda
