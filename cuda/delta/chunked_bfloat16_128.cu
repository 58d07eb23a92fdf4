#include "cuda/delta/chunked_launches.cuh"

namespace orthornn::cuda {

template struct ChunkedKernels<Bfloat16Product, 128>;

}  // namespace orthornn::cuda
