#include "cuda/core/context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cuda/core/check.hpp"
#include "cuda/core/clusters.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {
namespace {

// cuBLAS would allocate its workspace at first use, which is forbidden during a capture. 32 MiB is what
// NVIDIA recommends for compute capability 9.0.
constexpr std::size_t blas_workspace = std::size_t{32} << 20;

// One for each model on a GPU, 32 KiB in all.
constexpr int fault_word_count = 4096;
constexpr std::size_t fault_bytes = fault_word_count * sizeof(FaultWord);

// Scratch memory doubles while that wastes little.
constexpr std::size_t scratch_that_doubles = std::size_t{64} << 20;

std::string in_words(std::size_t bytes) {
  const auto count = static_cast<double>(bytes);
  return count < 1e8 ? fmt::format("{:.3f} MB", count * 1e-6) : fmt::format("{:.2f} GB", count * 1e-9);
}

/// Owns the handle or the memory that a CUDA function creates.
template <class Owner>
Owner made(auto make) {
  typename Owner::pointer handle = nullptr;
  check(make(&handle));
  return Owner(handle);
}

}  // namespace

Context::Context(int index) : index_(index) {
  check(cudaSetDevice(index));
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index));
  multiprocessors_ = properties.multiProcessorCount;
  has_clusters_ = current_device_has_clusters();
  shared_memory_per_block_ = properties.sharedMemPerBlockOptin;
  total_memory_ = properties.totalGlobalMem;
  own_stream_ = made<decltype(own_stream_)>(
      [](cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking); });
  blas_ = made<decltype(blas_)>(cublasCreate);
  blas_workspace_ =
      made<decltype(blas_workspace_)>([](void** memory) { return cudaMalloc(memory, blas_workspace); });
  solver_ = made<decltype(solver_)>(cusolverDnCreate);
  stream_ = own_stream_.get();
  solver_parameters_ = made<decltype(solver_parameters_)>(cusolverDnCreateParams);
  reached_ = made<decltype(reached_)>(
      [](cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDisableTiming); });
  lent_ = made<decltype(lent_)>(
      [](cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDisableTiming); });
  faults_ = made<decltype(faults_)>(
      [](FaultWord** words) { return cudaMalloc(reinterpret_cast<void**>(words), fault_bytes); });
  faults_on_host_ = made<decltype(faults_on_host_)>(
      [](FaultWord** words) { return cudaMallocHost(reinterpret_cast<void**>(words), fault_bytes); });
  check(cudaMemsetAsync(faults_.get(), 0xFF, fault_bytes, stream()));
}

cublasHandle_t Context::blas() {
  if (blas_stream_ != stream()) {
    blas_stream_.reset();
    check(cublasSetStream(blas_.get(), stream()));
    // cublasSetStream sets cuBLAS's own workspace.
    check(cublasSetWorkspace(blas_.get(), blas_workspace_.get(), blas_workspace));
    blas_stream_ = stream_;
  }
  return blas_.get();
}

cusolverDnHandle_t Context::solver() {
  check(cusolverDnSetStream(solver_.get(), stream()));
  return solver_.get();
}

cudaStream_t Context::use_stream(cudaStream_t stream) {
  const cudaStream_t before = stream_;
  if (stream == before) return before;
  if (is_captured(before)) {
    throw DeviceError(fmt::format(
        "another stream of cuda:{} was asked for while operations were recorded; begin and end a StreamScope "
        "outside of the recording",
        index_));
  }
  // In a capture nothing may wait for work outside of it.
  caller_has_followed_ = !is_captured(stream);
  if (caller_has_followed_) {
    const bool is_behind = own_is_behind_ && before == own_stream_.get();
    if (!is_behind) check(cudaEventRecord(reached_.get(), before));
    check(cudaStreamWaitEvent(stream, (is_behind ? lent_ : reached_).get(), 0));
  }
  stream_ = stream;
  return before;
}

void Context::return_to_stream(cudaStream_t stream) noexcept {
  try {
    check(cudaSetDevice(index_));
    if (stream != stream_ && !is_captured(stream_)) {
      if (stream == own_stream_.get()) {
        if (own_is_behind_ && !caller_has_followed_) catch_up();
        check(cudaEventRecord(lent_.get(), stream_));
        own_is_behind_ = true;
      } else {
        use_stream(stream);
      }
    }
  } catch (const DeviceError&) {
    // CUDA has failed, which the next call says.
  }
  stream_ = stream;
}

void Context::catch_up() const {
  check(cudaStreamWaitEvent(own_stream_.get(), lent_.get(), 0));
  own_is_behind_ = false;
}

OwnStream::OwnStream(Context& gpu) : gpu_(gpu), before_(gpu.stream_) {
  // Before a capture, in which it must not wait for work outside.
  if (gpu_.own_is_behind_) gpu_.catch_up();
  gpu_.stream_ = gpu_.own_stream_.get();
  gpu_.graph_is_own_ = true;
}

OwnStream::~OwnStream() {
  gpu_.graph_is_own_ = false;
  gpu_.stream_ = before_;
}

void Context::refuse_allocating() const {
  if (!is_recording()) return;
  throw DeviceError(fmt::format(
      "memory of cuda:{} was asked for while operations were recorded; run them directly once before, "
      "with the same sizes",
      index_));
}

void* Context::allocate(std::size_t bytes) {
  refuse_allocating();
  free_what_was_put_off();
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw DeviceError(fmt::format(
        "out of memory on cuda:{}: {} more were needed, {} of {} are free; use a smaller batch or model",
        index_, in_words(bytes), in_words(free_memory()), in_words(total_memory_)));
  }
  check(status);
  ++memory_changes_;
  return memory;
}

std::size_t Context::free_memory() const {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return free;
}

void Context::release(void* memory) noexcept {
  try {
    if (is_recording()) return put_off_.push_back(memory);
  } catch (...) {
    return;  // leaked: CUDA or a host allocation has failed
  }
  free_what_was_put_off();
  free(memory);
}

void Context::free(void* memory) noexcept {
  // At the end of a process the driver may be unloaded already. Then the error is ignored.
  if (cudaFree(memory) != cudaSuccess) cudaGetLastError();
  ++memory_changes_;
}

void Context::free_what_was_put_off() noexcept {
  for (void* const memory : std::exchange(put_off_, {})) free(memory);
}

void* Context::scratch_bytes(std::size_t bytes) {
  if (bytes > scratch_size_) {
    refuse_allocating();
    const std::size_t size =
        scratch_size_ < scratch_that_doubles ? std::max(bytes, 2 * scratch_size_) : bytes;
    if (scratch_ != nullptr && !scratch_is_captured_) free(scratch_);
    scratch_ = nullptr;
    scratch_size_ = 0;
    scratch_is_captured_ = false;
    scratch_ = allocate(size);
    scratch_size_ = size;
  }
  scratch_is_captured_ = scratch_is_captured_ || (!graph_is_own_ && is_recording());
  return scratch_;
}

void* Context::host_scratch(std::size_t bytes) {
  if (bytes > host_scratch_.size()) host_scratch_.resize(bytes);
  return host_scratch_.data();
}

void Context::refuse_waiting() const {
  if (!is_recording()) return;
  throw DeviceError(fmt::format("nothing may wait for cuda:{} while operations are recorded", index_));
}

void Context::wait() {
  refuse_waiting();
  check(cudaStreamSynchronize(stream()));
}

void Context::follow(Context& other) {
  refuse_waiting();
  other.refuse_waiting();
  check(cudaSetDevice(other.index_));
  check(cudaEventRecord(other.reached_.get(), other.stream()));
  check(cudaSetDevice(index_));
  check(cudaStreamWaitEvent(stream(), other.reached_.get(), 0));
}

int Context::take_fault_word() {
  // Words are reused as late as possible: their faults may still be thrown.
  if (fault_words_taken_ < fault_word_count) return fault_words_taken_++;
  if (fault_words_given_back_.empty()) {
    throw DeviceError(fmt::format("there are {} models on cuda:{} already, the most it takes",
                                  fault_word_count - 1, index_));
  }
  const int number = fault_words_given_back_.front();
  fault_words_given_back_.pop_front();
  check(cudaMemsetAsync(faults_.get() + number, 0xFF, sizeof(FaultWord), stream()));
  return number;
}

void Context::give_back_fault_word(int number) noexcept {
  try {
    fault_words_given_back_.push_back(number);
  } catch (...) {
    return;  // without memory for the list, the word is lost
  }
}

void Context::synchronize() {
  refuse_waiting();
  const int count = fault_word_ == 0 ? fault_words_taken_ : 1;
  check(cudaMemcpyAsync(faults_on_host_.get(), faults(), static_cast<std::size_t>(count) * sizeof(FaultWord),
                        cudaMemcpyDeviceToHost, stream()));
  check(cudaStreamSynchronize(stream()));
  const FaultWord* const words = faults_on_host_.get();
  const FaultWord* const found =
      std::find_if(words, words + count, [](FaultWord word) { return word != no_fault; });
  if (found == words + count) return;
  check(cudaMemsetAsync(faults() + (found - words), 0xFF, sizeof(FaultWord), stream()));
  throw_fault(*found);
}

void Context::permit(const void* kernel, std::size_t shared, bool large_clusters) const {
  auto& [most_shared, has_large_clusters] = permitted_[kernel];
  if (shared > most_shared) {
    check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
    most_shared = shared;
  }
  if (large_clusters && !has_large_clusters) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    has_large_clusters = true;
  }
}

int Context::active_clusters(const void* kernel, const cudaLaunchConfig_t& config) {
  const std::tuple shape{kernel, config.blockDim.x, config.dynamicSmemBytes,
                         config.attrs[0].val.clusterDim.x};
  const auto known = active_clusters_.find(shape);
  if (known != active_clusters_.end()) return known->second;
  const int count = clusters_with_room(kernel, config);
  active_clusters_.emplace(shape, count);
  return count;
}

int clusters_with_room(const void* kernel, const cudaLaunchConfig_t& config) {
  int count = 0;
  const cudaError_t error = cudaOccupancyMaxActiveClusters(&count, kernel, &config);
  // A part of a GPU may have no room for one.
  if (error == cudaErrorInvalidClusterSize) {
    cudaGetLastError();  // or the next check would find it
    return 0;
  }
  check(error);
  return count;
}

bool Context::is_recording() const { return is_captured(stream()); }

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

namespace {

struct Contexts {
  std::mutex mutex;
  std::map<int, std::unique_ptr<Context>> by_index;
};

/// Never destroyed: at the end of the process the driver may be unloaded first.
Contexts& contexts() {
  static auto& instance = *new Contexts;
  return instance;
}

}  // namespace

Context& context(Device device) {
  check(cudaSetDevice(device.index()));
  const std::lock_guard lock(contexts().mutex);
  std::unique_ptr<Context>& found = contexts().by_index[device.index()];
  if (!found) found = std::make_unique<Context>(device.index());
  return *found;
}

Context* existing_context(int index) noexcept {
  const std::lock_guard lock(contexts().mutex);
  const auto found = contexts().by_index.find(index);
  return found == contexts().by_index.end() ? nullptr : found->second.get();
}

}  // namespace orthornn::cuda
