#include "stream.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "emulator/fail.hpp"
#include "processor.hpp"
#include "runtime.hpp"

namespace orthornn::emulator {
namespace {

struct Streams {
  CUstream_st legacy, per_thread{.flags = cudaStreamNonBlocking, .capture = nullptr};
  std::set<cudaStream_t> created;
  std::set<cudaEvent_t> events;
  std::vector<std::shared_ptr<Capture>> captures;  // under way
};

/// Never destroyed, as others may destroy their streams late.
Streams& streams() {
  static auto* instance = new Streams;
  return *instance;
}

/// The stream itself, whatever it is called; null if there is none.
CUstream_st* resolve(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy) return &streams().legacy;
  if (stream == cudaStreamPerThread) return &streams().per_thread;
  return streams().created.contains(stream) ? stream : nullptr;
}

/// Ends in an error, now and at the capture's end.
cudaError_t invalidate(Capture& capture, cudaError_t error) {
  capture.invalid = true;
  return error;
}

/// Whether the stream could be used: an error if what it captures is invalid, or if it is the legacy stream
/// and would have to wait for one that captures.
cudaError_t check(CUstream_st* stream) {
  if (!device_exists()) return cudaErrorNoDevice;
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr)
    return stream->capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  if (stream != &streams().legacy) return cudaSuccess;
  for (const auto& capture : streams().captures) {
    for (const cudaStream_t other : capture->streams) {
      if ((other->flags & cudaStreamNonBlocking) == 0)
        return invalidate(*capture, cudaErrorStreamCaptureImplicit);
    }
  }
  return cudaSuccess;
}

void end(const std::shared_ptr<Capture>& capture) {
  std::erase(streams().captures, capture);
  for (const cudaStream_t stream : capture->streams) stream->capture = nullptr;
}

void join(CUstream_st& stream, const std::shared_ptr<Capture>& capture) {
  stream.capture = capture;
  stream.enqueued = 1;  // having joined has to be waited for as well
  stream.awaited = 0;
  capture->streams.push_back(&stream);
}

cudaError_t wait_for_event(CUstream_st* stream, cudaEvent_t event) {
  if (const cudaError_t error = check(stream); error != cudaSuccess) return error;
  if (!streams().events.contains(event)) return cudaErrorInvalidResourceHandle;
  if (event->capture == nullptr) {
    if (!event->recorded || stream->capture == nullptr) return cudaSuccess;
    return invalidate(*stream->capture, cudaErrorStreamCaptureIsolation);
  }
  const auto& capture = event->capture;
  const auto& active = streams().captures;
  if (std::find(active.begin(), active.end(), capture) == active.end()) return cudaErrorCapturedEvent;
  if (stream->capture == nullptr) {
    if (stream == &streams().legacy) return invalidate(*capture, cudaErrorStreamCaptureImplicit);
    join(*stream, capture);
  } else if (stream->capture != capture) {
    invalidate(*stream->capture, cudaErrorStreamCaptureMerge);
    return invalidate(*capture, cudaErrorStreamCaptureMerge);
  }
  if (event->stream != stream) event->stream->awaited = std::max(event->stream->awaited, event->position);
  return cudaSuccess;
}

cudaError_t synchronize(CUstream_st* stream) {
  if (const cudaError_t error = check(stream); error != cudaSuccess) return error;
  if (stream->capture != nullptr) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
  return cudaSuccess;
}

cudaError_t begin_capture(CUstream_st* stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = check(stream); error != cudaSuccess) return error;
  if (stream == &streams().legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  const auto capture = std::make_shared<Capture>(Capture{
      .origin = stream, .mode = mode, .thread = std::this_thread::get_id(), .work = {}, .streams = {}});
  streams().captures.push_back(capture);
  join(*stream, capture);
  return cudaSuccess;
}

cudaError_t end_capture(CUstream_st* stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const auto capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream) return invalidate(*capture, cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return invalidate(*capture, cudaErrorStreamCaptureWrongThread);
  }
  end(capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  for (const cudaStream_t other : capture->streams) {
    if (other != stream && other->awaited < other->enqueued) return cudaErrorStreamCaptureUnjoined;
  }
  *graph = make_graph(std::move(capture->work));
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t event, CUstream_st* stream) {
  if (const cudaError_t error = check(stream); error != cudaSuccess) return error;
  if (!streams().events.contains(event)) return cudaErrorInvalidResourceHandle;
  event->recorded = true;
  event->time = std::chrono::steady_clock::now();
  event->capture = stream->capture;
  event->stream = stream;
  event->position = stream->enqueued;
  return cudaSuccess;
}

cudaError_t synchronize(cudaEvent_t event) {
  if (!streams().events.contains(event)) return cudaErrorInvalidResourceHandle;
  if (event->capture == nullptr) return cudaSuccess;
  return invalidate(*event->capture, cudaErrorCapturedEvent);
}

cudaError_t elapsed_time(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  for (const cudaEvent_t event : {start, end}) {
    if (!streams().events.contains(event) || !event->recorded) return cudaErrorInvalidResourceHandle;
    if ((event->flags & cudaEventDisableTiming) != 0) return cudaErrorInvalidResourceHandle;
    if (event->capture != nullptr) return cudaErrorCapturedEvent;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}

}  // namespace

std::recursive_mutex& runtime_mutex() {
  static auto* instance = new std::recursive_mutex;
  return *instance;
}

cudaError_t enqueue(cudaStream_t handle, std::function<void()> work) {
  const std::lock_guard lock(runtime_mutex());
  if (processor().current() != nullptr) fail("the runtime was called from a kernel");
  CUstream_st* stream = resolve(handle);
  if (const cudaError_t error = check(stream); error != cudaSuccess) return error;
  if (stream->capture != nullptr) {
    stream->capture->work.push_back(std::move(work));
    ++stream->enqueued;
  } else {
    work();
  }
  return cudaSuccess;
}

cudaError_t refuse_during_capture() {
  cudaError_t error = cudaSuccess;
  for (const auto& capture : streams().captures) {
    if (capture->mode == cudaStreamCaptureModeGlobal || (capture->mode == cudaStreamCaptureModeThreadLocal &&
                                                         capture->thread == std::this_thread::get_id())) {
      error = invalidate(*capture, cudaErrorStreamCaptureUnsupported);
    }
  }
  return error;
}

bool is_capturing(cudaStream_t handle) {
  const CUstream_st* stream = resolve(handle);
  return stream != nullptr && stream->capture != nullptr;
}

}  // namespace orthornn::emulator

using orthornn::emulator::remember;
using orthornn::emulator::resolve;
using orthornn::emulator::runtime_mutex;
using orthornn::emulator::streams;

cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(runtime_mutex());
  if (!orthornn::emulator::device_exists()) return remember(cudaErrorNoDevice);
  // Whatever the mode: it would wait for the capturing stream.
  for (const auto& capture : streams().captures) capture->invalid = true;
  return remember(streams().captures.empty() ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const std::lock_guard lock(runtime_mutex());
  *stream = nullptr;
  if (!orthornn::emulator::device_exists()) return remember(cudaErrorNoDevice);
  if (flags > cudaStreamNonBlocking) return remember(cudaErrorInvalidValue);
  *stream = new CUstream_st{.flags = flags, .capture = nullptr};
  streams().created.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (!streams().created.contains(stream)) return remember(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    orthornn::emulator::end(std::shared_ptr(stream->capture));
  }
  streams().created.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  return remember(orthornn::emulator::synchronize(resolve(stream)));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(runtime_mutex());
  return remember(orthornn::emulator::wait_for_event(resolve(stream), event));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(runtime_mutex());
  return remember(orthornn::emulator::begin_capture(resolve(stream), mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(runtime_mutex());
  return remember(orthornn::emulator::end_capture(resolve(stream), graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(runtime_mutex());
  const CUstream_st* stream = resolve(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* data) {
  return remember(orthornn::emulator::enqueue(stream, [=] { function(data); }));
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const std::lock_guard lock(runtime_mutex());
  *event = nullptr;
  if (!orthornn::emulator::device_exists()) return remember(cudaErrorNoDevice);
  *event = new CUevent_st;
  (*event)->flags = flags;
  streams().events.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(runtime_mutex());
  if (streams().events.erase(event) == 0) return remember(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  return remember(orthornn::emulator::record(event, resolve(stream)));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(runtime_mutex());
  return remember(orthornn::emulator::synchronize(event));
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const std::lock_guard lock(runtime_mutex());
  return remember(orthornn::emulator::elapsed_time(milliseconds, start, end));
}
