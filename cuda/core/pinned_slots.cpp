#include "cuda/core/pinned_slots.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

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
// More than a batch has tensors of that size.
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
    for (Landing& landing : landings_) landing.was_taken = make_event();
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
      void* memory = nullptr;
      check(cudaMallocHost(&memory, wanted));
      slot.memory.reset(memory);
      slot.bytes = wanted;
    }
    return slot.memory.get();
  }

  void send(void* to, std::size_t bytes) override {
    const cudaStream_t operations = context(device_).stream();
    const Slot& slot = slots_[last_];
    if (bytes < smallest_ahead) {
      check(cudaMemcpyAsync(to, slot.memory.get(), bytes, cudaMemcpyHostToDevice, operations));
      check(cudaEventRecord(slot.was_read.get(), operations));
    } else {
      send_ahead(slot, to, bytes, operations);
    }
  }

 private:
  /// Operations wait for a copy within the GPU alone, unless they come to it before the host's memory is
  /// read.
  void send_ahead(const Slot& slot, void* to, std::size_t bytes, cudaStream_t operations) {
    reserve_landings(static_cast<Index>(bytes));
    last_landing_ = (last_landing_ + 1) % landing_count;
    Landing& landing = landings_[last_landing_];
    check(cudaStreamWaitEvent(copies_.get(), landing.was_taken.get(), 0));
    check(cudaMemcpyAsync(landing.memory.data(), slot.memory.get(), bytes, cudaMemcpyHostToDevice,
                          copies_.get()));
    check(cudaEventRecord(slot.was_read.get(), copies_.get()));
    check(cudaStreamWaitEvent(operations, slot.was_read.get(), 0));
    check(cudaMemcpyAsync(to, landing.memory.data(), bytes, cudaMemcpyDeviceToDevice, operations));
    check(cudaEventRecord(landing.was_taken.get(), operations));
  }

  /// All at once: graphs are recorded anew after each allocation.
  void reserve_landings(Index bytes) {
    for (Landing& landing : landings_) {
      if (landing.memory.size() < bytes) landing.memory = Tensor<std::uint8_t>(Shape{bytes}, device_);
    }
  }

  Device device_;
  std::array<Slot, slot_count> slots_;
  std::size_t last_ = 0;
  std::array<Landing, landing_count> landings_;
  std::size_t last_landing_ = 0;
  Owned<cudaStream_t, cudaStreamDestroy> copies_;
};

}  // namespace

std::unique_ptr<PinnedSlots> make_pinned_slots(Device device) {
  return std::make_unique<SlotsInTurn>(device);
}

}  // namespace orthornn::cuda
