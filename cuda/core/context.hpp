#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/core/fault.hpp"
#include "orthornn/core/device.hpp"

namespace orthornn::cuda {

template <auto give_back>
struct GiveBack {
  template <class T>
  void operator()(T* owned) const noexcept {
    give_back(owned);
  }
};
/// A handle of one of CUDA's libraries, or memory, which `give_back` takes: a context that could not be made
/// leaves nothing behind.
template <class Handle, auto give_back>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, GiveBack<give_back>>;

/// What operations on one GPU share: a stream, the libraries' handles on it, and scratch memory. One host
/// thread at a time.
class Context {
 public:
  explicit Context(int index);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  cudaStream_t stream() const { return stream_.get(); }
  cublasHandle_t blas() const { return blas_.get(); }
  cusolverDnHandle_t solver() const { return solver_.get(); }
  /// The default algorithms, and what cuSOLVER keeps of them.
  cusolverDnParams_t solver_parameters() const { return solver_parameters_.get(); }
  int multiprocessors() const { return multiprocessors_; }
  /// Bytes of shared memory that a block may ask for.
  std::size_t shared_memory_per_block() const { return shared_memory_per_block_; }
  /// As cuda/core/clusters.hpp says.
  bool has_clusters() const { return has_clusters_; }

  /// Throws DeviceError, with what is free, when there is not so much memory, and while operations are
  /// recorded.
  void* allocate(std::size_t bytes);
  /// While operations are recorded, which forbids it, it is put off.
  void release(void* memory) noexcept;
  /// As cudaMemGetInfo says.
  std::size_t free_memory() const;
  /// Allocations and releases so far.
  std::uint64_t memory_changes() const { return memory_changes_; }

  /// Memory for the operation that asks, until the next one asks: operations on one stream never overlap.
  template <class T>
  T* scratch(std::size_t count) {
    return static_cast<T*>(scratch_bytes(count * sizeof(T)));
  }
  /// The same in host memory, for operations that wait for what they have it used by.
  void* host_scratch(std::size_t bytes);

  /// Where kernels say what they find wrong: the word in use.
  FaultWord* faults() const { return faults_.get() + fault_word_; }
  /// A word of its own for an owner, so that its faults are not taken for another's. Throws DeviceError when
  /// none is left.
  int take_fault_word();
  /// A fault that has not been thrown yet stays there for `synchronize`, until the word has a new owner.
  void give_back_fault_word(int number) noexcept;
  /// Word `number` is in use from now on; returns the one that was. Word 0 belongs to no owner.
  int use_fault_word(int number) noexcept { return std::exchange(fault_word_, number); }
  /// Waits for the stream and throws what kernels have found wrong since the last time: what the word in use
  /// says, or any word where that is 0. DeviceError while operations are recorded.
  void synchronize();
  /// Waits for the stream alone.
  void wait();
  /// Throws as these two while operations are recorded.
  void refuse_waiting() const;
  /// Lets what is enqueued on this stream from now on wait for what is enqueued on the other one.
  void follow(Context& other);
  /// True while the stream is recorded into a graph, not run.
  bool is_recording() const;

  /// Clusters of this kernel and shape that run at the same time. CUDA takes its time to say so, the first
  /// time.
  int active_clusters(const void* kernel, const cudaLaunchConfig_t& config);

 private:
  void* scratch_bytes(std::size_t bytes);
  void refuse_allocating() const;
  void free(void* memory) noexcept;
  void free_what_was_put_off() noexcept;

  int index_;
  Owned<cudaStream_t, cudaStreamDestroy> stream_;
  Owned<void*, cudaFree> blas_workspace_;
  Owned<cublasHandle_t, cublasDestroy> blas_;
  Owned<cusolverDnHandle_t, cusolverDnDestroy> solver_;
  Owned<cusolverDnParams_t, cusolverDnDestroyParams> solver_parameters_;
  Owned<cudaEvent_t, cudaEventDestroy> reached_;
  /// [fault_word_count]
  Owned<FaultWord*, cudaFree> faults_;
  Owned<FaultWord*, cudaFreeHost> faults_on_host_;
  int fault_word_ = 0;
  /// Words 0 .. fault_words_taken_ - 1 have had an owner, word 0 aside.
  int fault_words_taken_ = 1;
  std::deque<int> fault_words_given_back_;
  int multiprocessors_ = 0;
  bool has_clusters_ = false;
  std::size_t shared_memory_per_block_ = 0;
  std::size_t total_memory_ = 0;
  std::uint64_t memory_changes_ = 0;
  /// Released while operations were recorded.
  std::vector<void*> put_off_;
  void* scratch_ = nullptr;
  std::size_t scratch_size_ = 0;
  std::vector<std::byte> host_scratch_;
  /// By kernel, threads and shared memory of a block, and blocks of a cluster.
  std::map<std::tuple<const void*, unsigned, std::size_t, unsigned>, int> active_clusters_;
};

/// The context of a GPU, which becomes the calling thread's current one. Made at first use, kept to the end
/// of the process.
Context& context(Device device);
/// The same if there is one already, as for those who give memory back; else null.
Context* existing_context(Device device) noexcept;

}  // namespace orthornn::cuda
