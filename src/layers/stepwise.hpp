#pragma once
// What layers that go step by step have in common.

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "core/for_each.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/execution.hpp"
#include "orthornn/core/recorded_loops.hpp"
#include "orthornn/core/tensor.hpp"
#include "pointwise/sequences.hpp"

namespace orthornn {

/// What arrives at the last state of a sequence without a step arrives at its first: to [B, N] += from.
template <class T>
void add_where_empty(TensorView<const std::int32_t> lengths, TensorView<const T> from, TensorView<T> to) {
  if (lengths.empty() || from.empty()) return;
  const Index size = to.shape()[1];
  for_each_entry(to.device(), size, to.shape()[0],
                 pointwise::AddWhereEmpty<T>{lengths.data(), from.data(), to.data(), size});
}

/// Runs a loop of at most `launches` kernels. A GPU records it where a graph can hold it. `memory` and
/// `sizes` are what the loop reads and writes besides parameters, as far as it differs from call to call. The
/// CPU makes no key, which would take memory at each call.
template <class Loop>
void run_loop(Device device, Index launches, RecordedLoops& records,
              std::initializer_list<const void*> memory, std::initializer_list<Index> sizes,
              const Loop& loop) {
  if (!device.is_cuda() || launches > RecordedLoops::most_launches) return loop();
  RecordedLoops::Key key;
  for (const void* const address : memory) key.push_back(key_of(address));
  for (const Index size : sizes) key.push_back(static_cast<std::uintptr_t>(size));
  records.run(device, std::move(key), loop);
}

/// The name of the way through time. Throws ValueError, which names the layer, where another one is asked
/// for.
inline std::string stepwise_name(const Execution& execution, const char* layer) {
  const RolloutWay way = execution.rollout;
  if (way != RolloutWay::automatic && way != RolloutWay::stepwise) {
    throw ValueError(
        fmt::format("the rollout cannot be {}: {} goes step by step; use automatic", name_of(way), layer));
  }
  return name_of(RolloutWay::stepwise);
}

}  // namespace orthornn
