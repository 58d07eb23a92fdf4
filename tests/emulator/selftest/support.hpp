#pragma once

#include <cuda_runtime.h>

#include <emulated_ptx.hpp>
#include <functional>
#include <string>
#include <vector>

#include "support/catch.hpp"

using orthornn::testing::Approx;
using orthornn::testing::contains;

/// What the process that does this says on stderr before it aborts; "lives" if it does not.
std::string last_words(const std::function<void()>& what);

/// Device memory that holds a copy of some values.
template <class T>
class DeviceVector {
 public:
  explicit DeviceVector(const std::vector<T>& values) : size_(values.size()) {
    REQUIRE(cudaMalloc(&data_, size_ * sizeof(T)) == cudaSuccess);
    REQUIRE(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  explicit DeviceVector(std::size_t size) : size_(size) {
    REQUIRE(cudaMalloc(&data_, size * sizeof(T)) == cudaSuccess);
  }
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;
  ~DeviceVector() { cudaFree(data_); }

  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> result(size_);
    REQUIRE(cudaMemcpy(result.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    return result;
  }

 private:
  std::size_t size_;
  T* data_ = nullptr;
};

struct Shape {
  dim3 grid = 1, block = 32;
  unsigned cluster = 1;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

template <class... Parameters, class... Arguments>
cudaError_t launch(const Shape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = shape.stream;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = shape.cluster;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  config.attrs = &cluster;
  config.numAttrs = shape.cluster > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}
