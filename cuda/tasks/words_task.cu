#include "cuda/core/for_each.cuh"
#include "cuda/tasks/words_task.hpp"

namespace orthornn::cuda {

/// A thread takes a sequence, as each product needs the one before. Neighbouring threads write neighbouring
/// places of a step. Symbol t is draw t of the sequence's stream, and four draws are a block.
void fill_words_batch(const SequenceStreams& streams, TensorView<const std::int32_t> products,
                      TensorView<std::int32_t> symbols, TensorView<std::int32_t> classes) {
  const Index length = symbols.shape()[0];
  const Index batch = symbols.shape()[1];
  const Index alphabet = products.shape()[0];
  const Index order = products.shape()[1];
  const std::int32_t* product = products.data();
  std::int32_t* input = symbols.data();
  std::int32_t* target = classes.data();
  const SequenceStreams draws = streams;
  for_each(context(symbols.device()), batch, [=] __device__(Index b) {
    const PhiloxStream stream = draws.stream(b);
    std::int32_t y = 0;
    for (Index first = 0; first < length; first += 4) {
      const std::array<std::uint32_t, 4> bits = stream.block(static_cast<std::uint64_t>(first / 4));
      for (Index t = first; t < length && t < first + 4; ++t) {
        const std::uint32_t x =
            integer_below(static_cast<std::uint32_t>(alphabet), bits[static_cast<std::size_t>(t - first)]);
        y = product[x * order + y];
        input[t * batch + b] = static_cast<std::int32_t>(x);
        target[t * batch + b] = y;
      }
    }
  });
}

}  // namespace orthornn::cuda
