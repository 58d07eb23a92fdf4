#pragma once

namespace orthornn {

/// Below this number of operations, waking the other threads costs more time than they save.
inline constexpr double serial_flops = 2e5;

}  // namespace orthornn
