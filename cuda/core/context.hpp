#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cuda/core/fault.hpp"
#include "orthornn/core/device.hpp"

namespace orthornn::cuda {

/// What operations on one GPU share: a stream, the libraries' handles on it, and scratch memory. One host
/// thread at a time.
class Context {
 public:
  explicit Context(int index);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  cudaStream_t stream() const { return stream_; }
  cublasHandle_t blas() const { return blas_; }
  cusolverDnHandle_t solver() const { return solver_; }
  int multiprocessors() const { return multiprocessors_; }
  /// Bytes of shared memory that a block may ask for.
  std::size_t shared_memory_per_block() const { return shared_memory_per_block_; }
  /// 90 for 9.0.
  int compute_capability() const { return compute_capability_; }

  /// Memory for the operation that asks, until the next one asks: operations on one stream never overlap.
  /// Blocks that have become too small are kept, because a recorded graph may refer to them.
  template <class T>
  T* scratch(std::size_t count) {
    return static_cast<T*>(scratch_bytes(count * sizeof(T)));
  }
  /// The same in host memory, for libraries that ask for it.
  void* host_scratch(std::size_t bytes);

  /// Where kernels say what they find wrong.
  FaultWord* faults() const { return faults_; }
  /// Waits for the stream and throws what kernels have found wrong since the last time.
  void synchronize();
  /// True while the stream is recorded into a graph, not run.
  bool is_recording() const;

  std::uint64_t memory_changes = 0;
  /// Clusters of each kernel that run at the same time: CUDA takes its time to say so.
  std::map<const void*, int> active_clusters;

 private:
  void* scratch_bytes(std::size_t bytes);

  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  cusolverDnHandle_t solver_ = nullptr;
  int multiprocessors_ = 0;
  int compute_capability_ = 0;
  std::size_t shared_memory_per_block_ = 0;
  std::vector<void*> scratch_blocks_;
  std::size_t scratch_size_ = 0;
  std::vector<std::byte> host_scratch_;
  FaultWord* faults_ = nullptr;
  FaultWord* faults_on_host_ = nullptr;
};

/// The context of a GPU, which becomes the calling thread's current one. Made at first use, kept to the end
/// of the process.
Context& context(Device device);

}  // namespace orthornn::cuda
