#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "orthornn/core/device.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::testing {

/// The GPU of a device test (tag [cuda]), which returns when there is none: CTest then reports it as skipped.
/// With ORTHORNN_REQUIRE_GPU in the environment, where there must be one, it fails.
inline std::optional<Device> gpu() {
  try {
    return Device::cuda();
  } catch (const DeviceError& error) {
    if (std::getenv("ORTHORNN_REQUIRE_GPU") != nullptr) throw;
    std::printf("skipped: %s\n", error.what());
    return std::nullopt;
  }
}

/// The second GPU of a test of two (tag [two-gpus]), which returns when there is none, as above.
inline std::optional<Device> second_gpu() {
  try {
    return Device::cuda(1);
  } catch (const DeviceError& error) {
    std::printf("skipped: %s\n", error.what());
    return std::nullopt;
  }
}

/// Whether it is the emulated device, on which what takes a GPU a millisecond takes minutes.
inline bool is_emulated(Device device) {
  constexpr int fewest_of_a_gpu = 64;
  return properties_of(device).multiprocessors < fewest_of_a_gpu;
}

}  // namespace orthornn::testing
