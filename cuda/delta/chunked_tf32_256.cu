#include "cuda/delta/chunked_launches.cuh"

namespace orthornn::cuda {

template struct ChunkedKernels<FloatProduct<false>, 256>;

}  // namespace orthornn::cuda
