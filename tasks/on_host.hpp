#pragma once

#include <initializer_list>
#include <utility>

#include "orthornn/core/batch.hpp"

namespace orthornn {

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

}  // namespace orthornn
