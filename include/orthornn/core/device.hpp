#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace orthornn {

/// Where memory lies and where operations on it run. Chosen once at run time; every tensor carries it.
class Device {
 public:
  enum class Kind { cpu, cuda };

  static Device cpu() { return Device(Kind::cpu, 0); }
  /// Throws DeviceError when this build has no CUDA back end, or this machine no such GPU of compute
  /// capability 8.0 or more with a driver that serves it.
  static Device cuda(int index = 0);
  /// A GPU if this build and this machine have one, else the CPU.
  static Device best();
  /// "cpu", "auto", "cuda" for the first GPU, or "cuda:1" for that of index 1. Throws DeviceError for a
  /// device that is not there, ValueError for another word.
  static Device parse(std::string_view name);

  Kind kind() const { return kind_; }
  bool is_cuda() const { return kind_ == Kind::cuda; }
  int index() const { return index_; }
  bool operator==(const Device&) const = default;

 private:
  Device(Kind kind, int index) : kind_(kind), index_(index) {}

  Kind kind_;
  int index_;
};

/// "cpu" or "cuda:0"
std::string to_string(Device device);

/// True when the library was built with its CUDA back end.
bool built_with_cuda();

/// What a device is, for those who read measurements. A CPU has a name alone.
struct DeviceProperties {
  std::string name;
  /// "9.0"
  std::string compute_capability;
  std::size_t memory_bytes = 0;
  int multiprocessors = 0;
  /// The highest clock of the multiprocessors.
  int clock_mhz = 0;
  /// The newest CUDA that the driver serves, and the one of this build: "13.0".
  std::string driver_cuda;
  std::string cuda;
};
DeviceProperties properties_of(Device device);
/// "NVIDIA H200, compute capability 9.0, 150.11 GB", or the processor's name.
std::string description(Device device);

/// Operations on a GPU are only started by the calls that name them, all on one stream of the device, in
/// order. This waits until they are done and throws what they found wrong and could not throw themselves
/// (ValueError, DeviceError). So does every copy from the device to the host. On the CPU, where operations
/// throw at once, it does nothing.
void synchronize(Device device);
/// The cudaStream_t that operations of this device go to, for programs that put work of their own in between;
/// nullptr for the CPU. StreamScope (stream_scope.hpp) sets another one. One host thread at a time may use a
/// device. Operations leave their GPU as the current device of the calling thread (cudaSetDevice).
void* stream_of(Device device);

/// Threads that CPU operations use; at first OMP_NUM_THREADS or all that the process may run on.
/// Results do not depend on it: work is always cut at the same places.
int thread_count();
/// Throws ValueError unless count >= 1.
void set_thread_count(int count);

namespace detail {
/// Aligned, uninitialised memory on `device`; throws std::bad_alloc, or DeviceError for a GPU's. Zero bytes
/// give nullptr.
void* allocate(Device device, std::size_t bytes);
void release(Device device, void* memory) noexcept;
void fill_zero(Device device, void* memory, std::size_t bytes);
/// Between any two devices.
void copy_bytes(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes);
}  // namespace detail

}  // namespace orthornn
