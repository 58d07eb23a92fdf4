#pragma once

#include <source_location>

#include "emulator/vector_types.hpp"

/// The built-in variables. The scheduler sets them whenever another thread gets to run.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;

namespace orthornn::emulator {

/// The dynamic shared memory of the running block, aligned to 128 bytes.
unsigned char* dynamic_shared_memory();

/// Lane of the running thread in its warp.
unsigned lane();

/// Waits for all threads of the block.
void synchronize_block(std::source_location where);

/// Lets other threads run in between, at random and only if ORTHORNN_EMULATED_SEED asks for it: called
/// wherever one thread sees what another does.
void perhaps_yield();

/// Lets every other thread that can run, run first.
void yield();

/// Waits until all lanes of `mask` have called with the same operation; the last of them calls `operate` with
/// all their arguments (null for lanes outside of the mask), and then all go on.
using Operate = void(void* const (&arguments)[32]);
void warp_collective(unsigned mask, const char* operation, void* argument, Operate* operate,
                     std::source_location where);

}  // namespace orthornn::emulator
