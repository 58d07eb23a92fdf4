#pragma once

#include "core/lent_memory.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// At least `count` scalars of aligned memory that belong to the calling thread and to `Purpose`. It grows
/// and never shrinks, so that a training step allocates nothing after the first; the contents are
/// unspecified.
template <class T, class Purpose>
T* thread_scratch(Index count) {
  thread_local Tensor<T> memory;
  const LentMemory::Pause pause;  // it outlives the operation
  memory.reserve(Shape{count});
  return memory.data();
}

}  // namespace orthornn
