#pragma once

#include <omp.h>

#include <algorithm>

#include "orthornn/core/device.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Cuts 0 .. count - 1 into one contiguous range a thread, borders at multiples of `grain`, and calls
/// body(first, last) for each non-empty one. The body must not throw, and must give the same numbers wherever
/// the borders fall.
template <class Body>
void parallel_for(Index count, Index grain, const Body& body) {
  const Index grains = count / grain + (count % grain != 0);
  const int threads = static_cast<int>(std::min<Index>(thread_count(), grains));
  if (threads <= 1 || omp_in_parallel()) {
    if (count > 0) body(Index{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const Index thread = omp_get_thread_num();
    const Index team = omp_get_num_threads();
    const Index first = grains * thread / team * grain;
    const Index last = std::min(count, grains * (thread + 1) / team * grain);
    if (first < last) body(first, last);
  }
}

}  // namespace orthornn
