#pragma once

#include <omp.h>

#include <algorithm>

#include "orthornn/core/device.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Below this number of operations, waking the other threads costs more time than they save.
inline constexpr double serial_flops = 2e5;
/// Steps of sequences that a thread takes at least where each costs some hundred operations: fewer are done
/// before another thread has started.
inline constexpr Index row_grain = 16;

/// Cuts 0 .. count - 1 into one contiguous range a thread, borders at multiples of `grain`, and calls
/// body(first, last) for each non-empty one. The body must not throw, and must give the same numbers wherever
/// the borders fall.
template <class Body>
void parallel_for(Index count, Index grain, const Body& body) {
  const Index grains = count / grain + (count % grain != 0);
  const int threads = thread_count();
  if (threads <= 1 || grains <= 1 || omp_in_parallel()) {
    if (count > 0) body(Index{0}, count);
    return;
  }
  // The team has the same size for every amount of work. For a smaller team OpenMP would end the other
  // threads and free their scratch memory.
#pragma omp parallel num_threads(threads)
  {
    const Index parts = std::min<Index>(omp_get_num_threads(), grains);
    const Index part = omp_get_thread_num();
    if (part < parts) {
      const Index first = grains * part / parts * grain;
      const Index last = std::min(count, grains * (part + 1) / parts * grain);
      if (first < last) body(first, last);
    }
  }
}

}  // namespace orthornn
