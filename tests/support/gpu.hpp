#pragma once

#include <cstdio>
#include <optional>

#include "orthornn/core/device.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::testing {

/// The GPU of a device test (tag [cuda]), which returns when there is none: CTest then reports it as skipped.
inline std::optional<Device> gpu() {
  try {
    return Device::cuda();
  } catch (const DeviceError& error) {
    std::printf("skipped: %s\n", error.what());
    return std::nullopt;
  }
}

}  // namespace orthornn::testing
