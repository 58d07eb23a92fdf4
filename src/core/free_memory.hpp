#pragma once

#include <optional>

namespace orthornn {

/// Bytes that the system says are free for programs; nothing where it does not say so.
std::optional<double> free_bytes();

}  // namespace orthornn
