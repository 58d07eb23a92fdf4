#include "tasks/batches.hpp"

#include <fmt/format.h>

#include <limits>

#include "orthornn/core/error.hpp"

namespace orthornn {

void check_batch_size(const char* task, Index length, Index batch) {
  constexpr Index most = std::numeric_limits<std::int32_t>::max();
  if (batch < 1) throw ValueError(fmt::format("task {}: the batch is {}, expected at least 1", task, batch));
  if (length <= most && batch <= most / length) return;
  throw ValueError(fmt::format("task {}: {} sequences of {} steps, expected at most {} steps in a batch",
                               task, batch, length, most));
}

}  // namespace orthornn
