#pragma once

// It says __noinline__ where our macro would be wrong, so it has to have been read before.
#include <memory>

/// CUDA's qualifiers, which mean nothing to a host compiler, but for the few that have a counterpart there.

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
/// The blocks of a launch without clusters run one after another on one OS thread, so they can share one
/// variable.
#define __shared__ static
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) alignas(n)
