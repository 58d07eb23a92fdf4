#pragma once

#include <cstddef>
#include <functional>
#include <source_location>

#include "emulator/vector_types.hpp"

namespace orthornn::emulator {

/// A kernel and its arguments, ready to run.
struct Launch {
  std::function<void()> thread;  // what every thread does
  const void* kernel = nullptr;  // to be named in messages
  dim3 grid, block, cluster;
  std::size_t shared_bytes = 0;
};

}  // namespace orthornn::emulator
