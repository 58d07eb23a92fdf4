#include "cuda/delta/chunked_launches.cuh"

namespace orthornn::cuda {

template struct ChunkedKernels<FloatProduct<true>, 256>;

}  // namespace orthornn::cuda
