#pragma once

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Steps of sequences that a thread takes at least where each costs some hundred operations: fewer are done
/// before another thread has started.
inline constexpr Index row_grain = 16;

}  // namespace orthornn
