#include "cuda/core/graph.hpp"

#include <atomic>
#include <utility>

#include "cuda/core/check.hpp"
#include "cuda/core/context.hpp"

namespace orthornn::cuda {
namespace {

std::atomic<std::uint64_t> launches{0};

}  // namespace

Graph::Graph(Graph&& other) noexcept
    : device_(other.device_), executable_(std::exchange(other.executable_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(executable_, other.executable_);
  return *this;
}

Graph::~Graph() {
  // As in Context::free: at the end of a process the driver may be unloaded already. Then the error is
  // ignored.
  if (executable_ != nullptr &&
      cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_)) != cudaSuccess) {
    cudaGetLastError();
  }
}

void Graph::record(Device device, const std::function<void()>& operations) {
  *this = Graph();  // even if what follows throws
  Context& gpu = context(device);
  const OwnStream own(gpu);
  const cudaStream_t stream = gpu.stream();
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    operations();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(status);
  device_ = device;
  executable_ = executable;
}

void Graph::launch() const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), context(device_).stream()));
  ++launches;
}

std::uint64_t graph_launches() { return launches; }

bool is_recording(Device device) { return context(device).is_recording(); }

}  // namespace orthornn::cuda
