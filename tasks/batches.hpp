#pragma once
// What tasks that make batches share.

#include <initializer_list>
#include <memory>
#include <utility>

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

/// Throws ValueError unless a batch has at least one sequence, and at most 2^31 - 1 steps in all its
/// sequences of `length` steps: lengths of sequences and targets are counted in 32 bits.
void check_batch_size(const char* task, Index length, Index batch);

/// The random stream of generated held-out data.
inline RandomPurpose held_out_stream(HeldOut set) {
  return set == HeldOut::validation ? RandomPurpose::validation : RandomPurpose::test;
}

/// Calls fill(batch) for a batch in host memory: `batch` itself, or `staging`, from which the tensors of
/// integers that batches of sequences have are then copied. Takes no memory after the first batch of a size.
template <class Fill>
void make_on_host(Batch& batch, Batch& staging, const Fill& fill) {
  if (!batch.device().is_cuda()) return fill(batch);
  fill(staging);
  for (const auto name : {batch_names::symbols, batch_names::lengths, batch_names::classes}) {
    const ConstTensorView<std::int32_t> made = std::as_const(staging).integers(name);
    if (made.empty()) continue;
    Tensor<std::int32_t>& copied = batch.integers(name);
    copied.reserve(made.shape());
    copy<std::int32_t>(made, copied);
  }
}

/// `Task::with_length` of a task of these options, which name their task as `Made`.
template <class Options>
std::unique_ptr<Task> task_with_length(Options options, Index length, Index batch) {
  options.length = length;
  options.batch = batch;
  return std::make_unique<typename Options::Made>(options);
}

}  // namespace orthornn
