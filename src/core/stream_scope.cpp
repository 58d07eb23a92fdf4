#include "orthornn/core/stream_scope.hpp"

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"

namespace orthornn {

StreamScope::StreamScope(Device device, void* stream) : device_(device) {
  if constexpr (has_cuda_bodies) {
    if (device_.is_cuda()) before_ = cuda::use_stream(device_, stream);
  }
}

StreamScope::~StreamScope() {
  if constexpr (has_cuda_bodies) {
    if (device_.is_cuda()) cuda::return_to_stream(device_, before_);
  }
}

}  // namespace orthornn
