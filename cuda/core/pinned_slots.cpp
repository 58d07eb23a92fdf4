#include "cuda/core/pinned_slots.hpp"

#include <algorithm>
#include <array>

#include "cuda/core/check.hpp"
#include "cuda/core/context.hpp"

namespace orthornn::cuda {
namespace {

// Three batches of translation, which have five tensors each.
constexpr std::size_t slot_count = 15;
constexpr std::size_t smallest_slot = 4096;

struct Slot {
  Owned<void*, cudaFreeHost> memory;
  std::size_t bytes = 0;
  /// Reached when the GPU has read the memory.
  Owned<cudaEvent_t, cudaEventDestroy> was_read;
};

class SlotsInTurn final : public PinnedSlots {
 public:
  explicit SlotsInTurn(Device device) : device_(device) {
    context(device);  // events belong to the current device
    for (Slot& slot : slots_) {
      cudaEvent_t event = nullptr;
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      slot.was_read.reset(event);
    }
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
    const Context& gpu = context(device_);
    const Slot& slot = slots_[last_];
    check(cudaMemcpyAsync(to, slot.memory.get(), bytes, cudaMemcpyHostToDevice, gpu.stream()));
    check(cudaEventRecord(slot.was_read.get(), gpu.stream()));
  }

 private:
  Device device_;
  std::array<Slot, slot_count> slots_;
  std::size_t last_ = 0;
};

}  // namespace

std::unique_ptr<PinnedSlots> make_pinned_slots(Device device) {
  return std::make_unique<SlotsInTurn>(device);
}

}  // namespace orthornn::cuda
