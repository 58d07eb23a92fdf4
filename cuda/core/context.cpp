#include "cuda/core/context.hpp"

#include <map>
#include <mutex>

#include "cuda/core/check.hpp"
#include "cuda/core/device.hpp"

namespace orthornn::cuda {
namespace {

// cuBLAS would allocate its workspace when it is first needed, which a recording forbids. 32 MiB is what
// NVIDIA recommends for compute capability 9.0.
constexpr std::size_t blas_workspace = std::size_t{32} << 20;

}  // namespace

Context::Context(int index) {
  check(cudaSetDevice(index));
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index));
  multiprocessors_ = properties.multiProcessorCount;
  compute_capability_ = 10 * properties.major + properties.minor;
  shared_memory_per_block_ = properties.sharedMemPerBlockOptin;
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  check(cublasCreate(&blas_));
  check(cublasSetStream(blas_, stream_));
  void* workspace = nullptr;
  check(cudaMalloc(&workspace, blas_workspace));
  check(cublasSetWorkspace(blas_, workspace, blas_workspace));
  check(cusolverDnCreate(&solver_));
  check(cusolverDnSetStream(solver_, stream_));
  check(cudaMalloc(reinterpret_cast<void**>(&faults_), sizeof(FaultWord)));
  check(cudaMallocHost(reinterpret_cast<void**>(&faults_on_host_), sizeof(FaultWord)));
  check(cudaMemsetAsync(faults_, 0xFF, sizeof(FaultWord), stream_));
}

void* Context::scratch_bytes(std::size_t bytes) {
  if (bytes > scratch_size_) {
    void* block = nullptr;
    const std::size_t size = std::max(bytes, 2 * scratch_size_);
    check(cudaMalloc(&block, size));
    ++memory_changes;
    scratch_blocks_.push_back(block);
    scratch_size_ = size;
  }
  return scratch_blocks_.empty() ? nullptr : scratch_blocks_.back();
}

void* Context::host_scratch(std::size_t bytes) {
  if (bytes > host_scratch_.size()) host_scratch_.resize(bytes);
  return host_scratch_.data();
}

void Context::synchronize() {
  check(cudaMemcpyAsync(faults_on_host_, faults_, sizeof(FaultWord), cudaMemcpyDeviceToHost, stream_));
  check(cudaStreamSynchronize(stream_));
  if (*faults_on_host_ == no_fault) return;
  const FaultWord found = *faults_on_host_;
  check(cudaMemsetAsync(faults_, 0xFF, sizeof(FaultWord), stream_));
  throw_fault(found);
}

bool Context::is_recording() const {
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(stream_, &status));
  return status != cudaStreamCaptureStatusNone;
}

Context& context(Device device) {
  // Never destroyed: at the end of the process the driver may be gone before us.
  static std::mutex mutex;
  static auto& contexts = *new std::map<int, std::unique_ptr<Context>>;
  check(cudaSetDevice(device.index()));
  const std::lock_guard lock(mutex);
  std::unique_ptr<Context>& found = contexts[device.index()];
  if (!found) found = std::make_unique<Context>(device.index());
  return *found;
}

}  // namespace orthornn::cuda
