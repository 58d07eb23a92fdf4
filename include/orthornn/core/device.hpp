#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace orthornn {

/// The processor whose memory holds a tensor and on which operations on it run. A program chooses it once, at
/// run time; every tensor carries it.
class Device {
 public:
  /// Kinds of devices.
  enum class Kind {
    cpu,  ///< The processors of this machine, as one device.
    cuda  ///< One NVIDIA GPU.
  };

  /// The CPU, which every build and every machine has.
  static Device cpu() { return Device(Kind::cpu, 0); }
  /// The GPU of this index. Throws DeviceError where this build has no CUDA back end, and where this machine
  /// has no such GPU of compute capability 8.0 or more with a driver that serves it.
  static Device cuda(int index = 0);
  /// The first GPU where this build and this machine have one, else the CPU.
  static Device best();
  /// The device of a name: "cpu", "auto" for `best`, "cuda" for the first GPU, "cuda:1" for the GPU of index
  /// 1. Throws DeviceError for a device that is not there, ValueError for another word.
  static Device parse(std::string_view name);

  /// Whether this is the CPU or a GPU.
  Kind kind() const { return kind_; }
  /// Whether this is a GPU.
  bool is_cuda() const { return kind_ == Kind::cuda; }
  /// Index of a GPU among those of this machine, from 0; 0 for the CPU.
  int index() const { return index_; }
  bool operator==(const Device&) const = default;

 private:
  Device(Kind kind, int index) : kind_(kind), index_(index) {}

  Kind kind_;
  int index_;
};

/// Name of a device, "cpu" or "cuda:0", as Device::parse takes it.
std::string to_string(Device device);

/// Whether the library was built with its CUDA back end.
bool built_with_cuda();

/// Properties of a device, for readers of measurements. For the CPU only the name is set.
struct DeviceProperties {
  /// Name of the GPU or of the processor.
  std::string name;
  /// Compute capability, such as "9.0".
  std::string compute_capability;
  /// Memory of the GPU in bytes.
  std::size_t memory_bytes = 0;
  /// Number of multiprocessors.
  int multiprocessors = 0;
  /// Highest clock of the multiprocessors in MHz.
  int clock_mhz = 0;
  /// Newest version of CUDA that the driver serves, such as "13.0".
  std::string driver_cuda;
  /// Version of CUDA that this build uses, such as "13.0".
  std::string cuda;
};
/// Reads the properties of a device. Throws DeviceError where CUDA cannot tell them.
DeviceProperties properties_of(Device device);
/// One line that describes a device: "NVIDIA H200, compute capability 9.0, 150.11 GB", or the processor's
/// name.
std::string description(Device device);

/// Waits until all operations that were started on a device are done. A call that names an operation on a GPU
/// only starts it, on the one stream of the device, in order. Throws what the operations found wrong and
/// could not throw themselves (ValueError, DeviceError). Every copy from the device to the host waits and
/// throws in the same way. On the CPU, where operations throw at once, it does nothing.
void synchronize(Device device);
/// The cudaStream_t that operations of this device go to, for programs that put work of their own in between;
/// nullptr for the CPU. StreamScope (stream_scope.hpp) sets another one. One host thread at a time may use a
/// device. Operations leave their GPU as the current device of the calling thread (cudaSetDevice).
void* stream_of(Device device);

/// Number of threads that CPU operations use; at first OMP_NUM_THREADS or all that the process may run on.
/// Results do not depend on it: work is always cut at the same places.
int thread_count();
/// Sets the number of threads that CPU operations use. Throws ValueError unless count >= 1.
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
