#include "cuda/core/for_each_entry.cuh"
#include "cuda/tasks/copying_task.hpp"

namespace orthornn::cuda {

void fill_batch(const CopyingBatch& task, TensorView<std::int32_t> symbols,
                TensorView<std::int32_t> classes) {
  const Index length = symbols.shape()[0];
  const Index batch = symbols.shape()[1];
  std::int32_t* input = symbols.data();
  std::int32_t* target = classes.data();
  const CopyingBatch a = task;
  for_each_entry(context(symbols.device()), batch, length, [=] __device__(Index b, Index t) {
    // Symbol s of sequence b is draw s * B + b.
    const auto symbol = [&](Index s) {
      const std::uint32_t bits = a.stream.bits(static_cast<std::uint64_t>(s * batch + b));
      return static_cast<std::int32_t>(integer_below(static_cast<std::uint32_t>(a.data_symbols), bits));
    };
    const Index answer = a.string_length + a.delay;
    const bool asks = t == answer - 1;
    input[t * batch + b] = t < a.string_length ? symbol(t) : asks ? a.marker : a.blank;
    target[t * batch + b] = t >= answer ? symbol(t - answer) : a.blank;
  });
}

}  // namespace orthornn::cuda
