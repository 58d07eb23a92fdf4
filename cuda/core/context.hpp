#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
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
/// Owns a CUDA handle or memory and releases it by `give_back`. So a constructor that throws leaks nothing.
template <class Handle, auto give_back>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, GiveBack<give_back>>;

/// The shared resources of operations on one GPU: a stream, library handles on it, and scratch memory. Only
/// one host thread at a time may use it.
class Context {
 public:
  explicit Context(int index);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The stream that operations go to: its own, or one that `use_stream` has set.
  cudaStream_t stream() const {
    if (own_is_behind_ && stream_ == own_stream_.get()) catch_up();
    return stream_;
  }
  /// Makes operations go to `stream`, after what either stream has to do; where `stream` is captured, after
  /// what comes before in the capture. Returns the stream before. Throws DeviceError where that is another
  /// one that is captured.
  cudaStream_t use_stream(cudaStream_t stream);
  /// The same at the end of a scope, also while the current stream is captured. An error of CUDA is left for
  /// the next call that checks.
  void return_to_stream(cudaStream_t stream) noexcept;
  /// cuBLAS and cuSOLVER, whose operations go to `stream()`.
  cublasHandle_t blas();
  cusolverDnHandle_t solver();
  /// cuSOLVER's parameters: the default algorithms.
  cusolverDnParams_t solver_parameters() const { return solver_parameters_.get(); }
  int multiprocessors() const { return multiprocessors_; }
  /// The most bytes of shared memory of a block.
  std::size_t shared_memory_per_block() const { return shared_memory_per_block_; }
  /// See cuda/core/clusters.hpp.
  bool has_clusters() const { return has_clusters_; }

  /// Throws DeviceError, which names the free memory, if memory is short. Also throws it during a capture.
  void* allocate(std::size_t bytes);
  /// During a capture, the release is postponed.
  void release(void* memory) noexcept;
  /// The free memory by cudaMemGetInfo.
  std::size_t free_memory() const;
  /// Allocations and releases so far.
  std::uint64_t memory_changes() const { return memory_changes_; }

  /// Memory for the calling operation, valid until the next call. Operations on one stream never overlap, so
  /// they share it.
  template <class T>
  T* scratch(std::size_t count) {
    return static_cast<T*>(scratch_bytes(count * sizeof(T)));
  }
  /// The same in host memory, for operations that synchronize before they return.
  void* host_scratch(std::size_t bytes);

  /// The word in which kernels report faults.
  FaultWord* faults() const { return faults_.get() + fault_word_; }
  /// Reserves a word for one owner, so that its faults are told apart from those of others. Throws
  /// DeviceError when all words are in use.
  int take_fault_word();
  /// A fault that was not thrown yet stays in the word for `synchronize`, until the word has a new owner.
  void give_back_fault_word(int number) noexcept;
  /// Makes word `number` the current one; returns the previous number. Word 0 has no owner.
  int use_fault_word(int number) noexcept { return std::exchange(fault_word_, number); }
  /// Synchronizes the stream and throws the fault that kernels reported since the last call: the fault of the
  /// current word, or of any word if the current one is word 0. Throws DeviceError during a capture.
  void synchronize();
  /// Synchronizes the stream without throwing faults.
  void wait();
  /// Throws DeviceError during a capture, as these two.
  void refuse_waiting() const;
  /// Makes operations that are enqueued here from now on wait for those already enqueued on the other stream.
  void follow(Context& other);
  /// True while the stream is captured into a graph.
  bool is_recording() const;

  /// Lets a kernel have that much shared memory in a block, and clusters of more than eight blocks.
  void permit(const void* kernel, std::size_t shared, bool large_clusters) const;
  /// The number of clusters of this kernel and shape that run at the same time; 0 where there is no room for
  /// one. The first call is slow; the answer is cached.
  int active_clusters(const void* kernel, const cudaLaunchConfig_t& config);

 private:
  friend class OwnStream;
  void* scratch_bytes(std::size_t bytes);
  void catch_up() const;
  void refuse_allocating() const;
  void free(void* memory) noexcept;
  void free_what_was_put_off() noexcept;

  int index_;
  Owned<cudaStream_t, cudaStreamDestroy> own_stream_;
  cudaStream_t stream_ = nullptr;
  /// Reached by the last caller's stream that operations went to. Its own stream waits for that only when it
  /// is used again: the next operation is mostly a caller's too.
  Owned<cudaEvent_t, cudaEventDestroy> lent_;
  mutable bool own_is_behind_ = false;
  /// Whether the current stream of a caller waited for that too, which a captured one must not.
  bool caller_has_followed_ = true;
  Owned<void*, cudaFree> blas_workspace_;
  Owned<cublasHandle_t, cublasDestroy> blas_;
  std::optional<cudaStream_t> blas_stream_;
  Owned<cusolverDnHandle_t, cusolverDnDestroy> solver_;
  Owned<cusolverDnParams_t, cusolverDnDestroyParams> solver_parameters_;
  Owned<cudaEvent_t, cudaEventDestroy> reached_;
  /// [fault_word_count]
  Owned<FaultWord*, cudaFree> faults_;
  Owned<FaultWord*, cudaFreeHost> faults_on_host_;
  int fault_word_ = 0;
  /// Words 1 .. fault_words_taken_ - 1 have had an owner.
  int fault_words_taken_ = 1;
  std::deque<int> fault_words_given_back_;
  int multiprocessors_ = 0;
  bool has_clusters_ = false;
  std::size_t shared_memory_per_block_ = 0;
  std::size_t total_memory_ = 0;
  std::uint64_t memory_changes_ = 0;
  /// Memory that was released during a capture.
  std::vector<void*> put_off_;
  void* scratch_ = nullptr;
  std::size_t scratch_size_ = 0;
  /// Whether a graph of a caller uses the scratch memory. CUDA does not say when such a graph ends, so this
  /// memory is never freed.
  bool scratch_is_captured_ = false;
  /// Whether what is captured is a Graph, which is recorded anew when the scratch memory has grown.
  bool graph_is_own_ = false;
  std::vector<std::byte> host_scratch_;
  /// What was permitted, by kernel: each call of CUDA for it takes as long as a launch.
  mutable std::map<const void*, std::pair<std::size_t, bool>> permitted_;
  /// By kernel, threads and shared memory of a block, and blocks of a cluster.
  std::map<std::tuple<const void*, unsigned, std::size_t, unsigned>, int> active_clusters_;
};

/// While it lives, operations go to the context's own stream, which may be captured. A caller's stream may
/// not: it may be the default one. Nothing is ordered.
class OwnStream {
 public:
  explicit OwnStream(Context& gpu);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

 private:
  Context& gpu_;
  cudaStream_t before_;
};

/// The context of a GPU, which becomes the calling thread's current one. Made at first use, kept to the end
/// of the process.
Context& context(Device device);
/// The context of GPU `index` if it exists already; else null.
Context* existing_context(int index) noexcept;
/// The number of clusters of this kernel and shape that the current device runs at the same time; 0 where it
/// has no room for one.
int clusters_with_room(const void* kernel, const cudaLaunchConfig_t& config);
/// Whether operations on the stream go to a graph.
bool is_captured(cudaStream_t stream);

}  // namespace orthornn::cuda
