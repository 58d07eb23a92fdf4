#include <cstdlib>

#include "support.hpp"

namespace {

using orthornn::emulator::dynamic_shared_memory;

__global__ void add_kernel(float* x, float summand) { x[threadIdx.x] += summand; }
__global__ void large_cluster_kernel(float*) {}
__global__ void shared_kernel(float*) { dynamic_shared_memory()[0] = 1; }

class Stream {
 public:
  Stream() { REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { REQUIRE(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming) == cudaSuccess); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

void begin(cudaStream_t stream) {
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
}

}  // namespace

TEST_CASE("A capture records, and its graph replays") {
  const Stream stream;
  const DeviceVector x(std::vector<float>(32, 1.0F)), y(std::vector<float>(32, 5.0F));
  begin(stream);
  cudaStreamCaptureStatus status;
  REQUIRE(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  REQUIRE(launch({.stream = stream}, add_kernel, x.data(), 2.0F) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(y.data(), x.data(), 64, cudaMemcpyDeviceToDevice, stream) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(x.values()[0] == 1.0F);
  std::size_t nodes = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 2);
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  for (int i = 0; i < 3; ++i) REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(x.values()[31] == 7.0F);
  CHECK(y.values()[15] == 7.0F);
  CHECK(y.values()[16] == 5.0F);
  REQUIRE(cudaGraphExecDestroy(executable) == cudaSuccess);
}

TEST_CASE("What cannot be captured ends the capture") {
  const Stream stream;
  const DeviceVector x(std::vector<float>(32, 1.0F));
  std::vector<float> host(32);
  float* memory = nullptr;
  begin(stream);
  cudaError_t error = cudaSuccess;
  SECTION("allocation") { error = cudaMalloc(&memory, 16); }
  SECTION("release") { error = cudaFree(x.data()); }
  SECTION("synchronisation") { error = cudaStreamSynchronize(stream); }
  SECTION("synchronisation of all") { error = cudaDeviceSynchronize(); }
  SECTION("copy") { error = cudaMemcpy(host.data(), x.data(), 128, cudaMemcpyDeviceToHost); }
  SECTION("pageable memory") {
    error = cudaMemcpyAsync(host.data(), x.data(), 128, cudaMemcpyDeviceToHost, stream);
  }
  CHECK(error == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaGetLastError() == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(launch({.stream = stream}, add_kernel, x.data(), 2.0F) == cudaErrorStreamCaptureInvalidated);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  cudaGetLastError();
}

TEST_CASE("A capture extends to streams that wait for it, and back") {
  const Stream stream, other;
  const Event fork, back, outside;
  const DeviceVector x(std::vector<float>(32, 1.0F));
  REQUIRE(cudaEventRecord(outside, other) == cudaSuccess);
  begin(stream);
  REQUIRE(cudaEventRecord(fork, stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other, fork, 0) == cudaSuccess);
  REQUIRE(launch({.stream = other}, add_kernel, x.data(), 2.0F) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  SECTION("joined") {
    REQUIRE(cudaEventRecord(back, other) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(stream, back, 0) == cudaSuccess);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    CHECK(x.values()[0] == 1.0F);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  }
  SECTION("left alone") { CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined); }
  SECTION("joined too early") {
    REQUIRE(cudaEventRecord(back, other) == cudaSuccess);
    REQUIRE(launch({.stream = other}, add_kernel, x.data(), 2.0F) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(stream, back, 0) == cudaSuccess);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined);
  }
  SECTION("ended where it did not begin") {
    CHECK(cudaStreamEndCapture(other, &graph) == cudaErrorStreamCaptureUnmatched);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  SECTION("waiting for what is not captured") {
    CHECK(cudaStreamWaitEvent(stream, outside, 0) == cudaErrorStreamCaptureIsolation);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  // Both streams are free again.
  CHECK(launch({.stream = other}, add_kernel, x.data(), 1.0F) == cudaSuccess);
  CHECK(x.values()[0] == 2.0F);
  cudaGetLastError();
}

TEST_CASE("Launches that CUDA refuses") {
  float* nothing = nullptr;
  CHECK(launch({.grid = 0}, add_kernel, nothing, 1.0F) == cudaErrorInvalidConfiguration);
  CHECK(launch({.grid = {1, 65536}}, add_kernel, nothing, 1.0F) == cudaErrorInvalidConfiguration);
  CHECK(launch({.block = 1025}, add_kernel, nothing, 1.0F) == cudaErrorInvalidConfiguration);
  CHECK(launch({.block = {64, 32}}, add_kernel, nothing, 1.0F) == cudaErrorInvalidConfiguration);
  CHECK(launch({.grid = 3, .cluster = 2}, large_cluster_kernel, nothing) == cudaErrorInvalidConfiguration);

  CHECK(launch({.shared_bytes = 49153}, shared_kernel, nothing) == cudaErrorInvalidValue);
  const auto attribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  CHECK(cudaFuncSetAttribute(shared_kernel, attribute, (227 << 10) + 1) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(shared_kernel, attribute, 227 << 10) == cudaSuccess);
  CHECK(launch({.shared_bytes = 227 << 10}, shared_kernel, nothing) == cudaSuccess);

  CHECK(launch({.grid = 16, .cluster = 16}, large_cluster_kernel, nothing) == cudaErrorInvalidClusterSize);
  CHECK(cudaFuncSetAttribute(large_cluster_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) ==
        cudaSuccess);
  CHECK(launch({.grid = 16, .cluster = 16}, large_cluster_kernel, nothing) == cudaSuccess);
  CHECK(launch({.grid = 32, .cluster = 32}, large_cluster_kernel, nothing) == cudaErrorInvalidClusterSize);
  cudaGetLastError();
}

TEST_CASE("Memory is limited, and copies stay within it") {
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  setenv("ORTHORNN_EMULATED_MEMORY", std::to_string(total - free + 1024).c_str(), 1);
  float* memory = nullptr;
  CHECK(cudaMalloc(&memory, 1028) == cudaErrorMemoryAllocation);
  CHECK(memory == nullptr);
  CHECK(cudaMalloc(&memory, 1024) == cudaSuccess);
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(free == 0);
  unsetenv("ORTHORNN_EMULATED_MEMORY");

  std::vector<float> host(512);
  CHECK(cudaMemcpy(memory, host.data(), 1028, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(memory, host.data(), 1024, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy2DAsync(memory, 32, host.data(), 64, 16, 32, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy2DAsync(memory, 48, host.data(), 64, 16, 32, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cudaFree(memory + 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("The device and its absence") {
  cudaDeviceProp properties;
  REQUIRE(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(std::string(properties.name) == "emulated GPU");
  CHECK(properties.major == 9);
  int value = 0;
  REQUIRE(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess);
  CHECK(value == 22);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
  setenv("ORTHORNN_EMULATED_DEVICES", "0", 1);
  CHECK(cudaGetDeviceCount(&value) == cudaErrorNoDevice);
  CHECK(value == 0);
  float* memory = nullptr;
  CHECK(cudaMalloc(&memory, 4) == cudaErrorNoDevice);
  unsetenv("ORTHORNN_EMULATED_DEVICES");
  CHECK(std::string(cudaGetErrorName(cudaErrorNoDevice)) == "cudaErrorNoDevice");
  cudaGetLastError();
}
