#pragma once

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

/// The random stream of generated held-out data.
inline RandomPurpose held_out_stream(HeldOut set) {
  return set == HeldOut::validation ? RandomPurpose::validation : RandomPurpose::test;
}

}  // namespace orthornn
