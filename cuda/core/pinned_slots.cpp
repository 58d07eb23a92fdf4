#include "cuda/core/pinned_slots.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "cuda/core/check.hpp"
#include "cuda/core/context.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {
namespace {

// Three batches of translation, which have five tensors each.
constexpr std::size_t slot_count = 15;
constexpr std::size_t smallest_slot = 4096;
// Copies of fewer bytes are made where operations wait for them: that takes less time than two copies.
constexpr std::size_t smallest_ahead = std::size_t{64} << 10;
// More than most batches have tensors of that size.
constexpr std::size_t landing_count = 4;

struct Slot {
  Owned<void*, cudaFreeHost> memory;
  std::size_t bytes = 0;
  /// Reached when the GPU has read the memory.
  Owned<cudaEvent_t, cudaEventDestroy> was_read;
};

/// Memory of the GPU in which a copy from the host ends while operations still use the tensor that it is for.
struct Landing {
  Tensor<std::uint8_t> memory;
  /// Reached when the tensor has what is here.
  Owned<cudaEvent_t, cudaEventDestroy> was_taken;
};

Owned<cudaEvent_t, cudaEventDestroy> make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return Owned<cudaEvent_t, cudaEventDestroy>(event);
}

class SlotsInTurn final : public PinnedSlots {
 public:
  explicit SlotsInTurn(Device device) : device_(device) {
    context(device);  // events and streams belong to the current device
    for (Slot& slot : slots_) slot.was_read = make_event();
    for (Landing& landing : landings_) {
      landing.memory = Tensor<std::uint8_t>(Shape{0}, device);
      landing.was_taken = make_event();
    }
    was_sent_ = make_event();
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    copies_.reset(stream);
  }

  /// The GPU may still be reading. As in Context::free, an error at the end of a process is ignored.
  ~SlotsInTurn() override {
    for (const Slot& slot : slots_) {
      if (cudaEventSynchronize(slot.was_read.get()) != cudaSuccess) cudaGetLastError();
    }
  }

  void* next(std::size_t bytes) override {
    context(device_).refuse_waiting();
    last_ = (last_ + 1) % slot_count;
    Slot& slot = slots_[last_];
    check(cudaEventSynchronize(slot.was_read.get()));
    if (bytes > slot.bytes) {
      const std::size_t wanted = std::max({bytes, 2 * slot.bytes, smallest_slot});
      slot.bytes = 0;
      slot.memory.reset();
      slot.memory.reset(allocate_pinned(device_, wanted));
      slot.bytes = wanted;
    }
    return slot.memory.get();
  }

  void send_slot(void* to, std::size_t bytes) override {
    const cudaStream_t operations = context(device_).stream();
    const Slot& slot = slots_[last_];
    if (bytes >= smallest_ahead) return send_ahead(slot.memory.get(), to, bytes, slot.was_read.get());
    check(cudaMemcpyAsync(to, slot.memory.get(), bytes, cudaMemcpyHostToDevice, operations));
    check(cudaEventRecord(slot.was_read.get(), operations));
  }

  void send(const void* from, void* to, std::size_t bytes) override {
    if (bytes >= smallest_ahead) {
      context(device_).refuse_waiting();
      return send_ahead(from, to, bytes, was_sent_.get());
    }
    std::memcpy(next(bytes), from, bytes);
    send_slot(to, bytes);
  }

  void wait_until_sent() override { check(cudaEventSynchronize(was_sent_.get())); }

 private:
  /// Operations wait for a copy within the GPU alone, unless they come to it before the host's memory is
  /// read. `was_read` is reached then.
  void send_ahead(const void* from, void* to, std::size_t bytes, cudaEvent_t was_read) {
    reserve_landings(static_cast<Index>(bytes));
    last_landing_ = (last_landing_ + 1) % landing_count;
    Landing& landing = landings_[last_landing_];
    const cudaStream_t operations = context(device_).stream();
    check(cudaStreamWaitEvent(copies_.get(), landing.was_taken.get(), 0));
    check(cudaMemcpyAsync(landing.memory.data(), from, bytes, cudaMemcpyHostToDevice, copies_.get()));
    check(cudaEventRecord(was_read, copies_.get()));
    check(cudaStreamWaitEvent(operations, was_read, 0));
    check(cudaMemcpyAsync(to, landing.memory.data(), bytes, cudaMemcpyDeviceToDevice, operations));
    check(cudaEventRecord(landing.was_taken.get(), operations));
  }

  /// All at once: graphs are recorded anew after each allocation. Nothing clears them, which operations would
  /// do while copies arrive.
  void reserve_landings(Index bytes) {
    for (Landing& landing : landings_) landing.memory.reserve({bytes});
  }

  Device device_;
  std::array<Slot, slot_count> slots_;
  std::size_t last_ = 0;
  /// Of what lies in no slot: one stream makes these copies in their order, so the last one tells of all.
  Owned<cudaEvent_t, cudaEventDestroy> was_sent_;
  std::array<Landing, landing_count> landings_;
  std::size_t last_landing_ = 0;
  Owned<cudaStream_t, cudaStreamDestroy> copies_;
};

}  // namespace

std::unique_ptr<PinnedSlots> make_pinned_slots(Device device) {
  return std::make_unique<SlotsInTurn>(device);
}

void* allocate_pinned(Device device, std::size_t bytes) {
  check(cudaSetDevice(device.index()));
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes));
  return memory;
}

void release_pinned(Device device, void* memory) noexcept {
  // The GPU may still be reading. As in Context::free, an error at the end of a process is ignored.
  if (cudaSetDevice(device.index()) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess ||
      cudaFreeHost(memory) != cudaSuccess)
    cudaGetLastError();
}

}  // namespace orthornn::cuda
