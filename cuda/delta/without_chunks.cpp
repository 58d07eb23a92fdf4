// The functions of chunked_delta_product.cu in builds without its kernels. cmake/cuda.cmake says which builds
// these are.

#include "cuda/delta/chunked_delta_product.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError("this build has no chunked form of a delta product on a GPU; ask for the recurrent form");
}

}  // namespace

bool has_chunked_kernels(Device) { return false; }

template <class T>
void chunked_delta_product(const DeltaWork<T>&, const DeltaResults<T>&) {
  refuse();
}
template <class T>
void chunked_delta_product_backward(const DeltaWork<T>&, const DeltaProductGradients<T>&) {
  refuse();
}

template <class T>
SavedMemory memory_of_chunks(const DeltaWork<T>&) {
  refuse();
}
template <class T>
void push_kept_chunks(const DeltaWork<T>&) {
  refuse();
}

#define ORTHORNN_INSTANTIATE(T)                                                                          \
  template void chunked_delta_product<T>(const DeltaWork<T>&, const DeltaResults<T>&);                   \
  template void chunked_delta_product_backward<T>(const DeltaWork<T>&, const DeltaProductGradients<T>&); \
  template SavedMemory memory_of_chunks<T>(const DeltaWork<T>&);                                         \
  template void push_kept_chunks<T>(const DeltaWork<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(bfloat16)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
