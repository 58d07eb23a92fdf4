#pragma once

#include <cstdint>
#include <source_location>

namespace orthornn::emulator {

/// Subtracts arrivals and bytes from what the barrier's phase still waits for; completes the phase if that is
/// all.
void mbarrier_count(std::uint64_t* barrier, unsigned arrivals, int transactions, std::source_location where);

}  // namespace orthornn::emulator
