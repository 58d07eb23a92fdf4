#pragma once
// Bodies of src/pointwise on any device.

#include <algorithm>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/core/for_each.hpp"

namespace orthornn {

/// Calls body(i) for i = 0 .. count - 1 where the body's memory is, in any order. A thread of the CPU takes
/// `grain` entries at least.
template <class Body>
void for_each(Device device, Index count, const Body& body, Index grain = 64) {
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) return cuda::for_each(device, count, body);
  }
  parallel_for(count, grain, [own = body](Index first, Index last) {
    for (Index i = first; i < last; ++i) own(i);
  });
}

/// Calls body(row, column) for all entries where the body's memory is, in any order. Entries of a column
/// should be neighbours in memory.
template <class Body>
void for_each_entry(Device device, Index rows, Index columns, const Body& body) {
  if (rows == 0 || columns == 0) return;
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) return cuda::for_each_entry(device, rows, columns, body);
  }
  // To wake another thread takes as long as some thousand entries.
  constexpr Index entries_of_thread = 4096;
  parallel_for(columns, std::max<Index>(1, entries_of_thread / rows),
               [own = body, rows](Index first, Index last) {
                 for (Index column = first; column < last; ++column) {
                   for (Index row = 0; row < rows; ++row) own(row, column);
                 }
               });
}

}  // namespace orthornn
