#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cuda_runtime_api.h"

namespace orthornn::emulator {

/// Work recorded from the stream where the capture began and those that have joined it, in the order in which
/// it was enqueued, which satisfies all dependencies between these streams.
struct Capture {
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool invalid = false;
  std::vector<std::function<void()>> work;
  std::vector<cudaStream_t> streams;
};

/// The work of a graph; launches of it may outlive the graph.
using Work = std::shared_ptr<const std::vector<std::function<void()>>>;

/// Null if it is none.
Work work_of(cudaGraphExec_t executable);
cudaGraph_t make_graph(std::vector<std::function<void()>> work);

}  // namespace orthornn::emulator

struct CUstream_st {
  unsigned flags = 0;
  std::shared_ptr<orthornn::emulator::Capture> capture;  // if it captures
  // Of a stream that has joined a capture: how much was enqueued, and up to where other streams wait for it.
  std::uint64_t enqueued = 0, awaited = 0;
};

struct CUevent_st {
  unsigned flags = 0;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
  // If it was recorded in a capture, then where.
  std::shared_ptr<orthornn::emulator::Capture> capture;
  cudaStream_t stream = nullptr;
  std::uint64_t position = 0;
};
