#include "cuda/core/for_each_entry.cuh"
#include "cuda/tasks/adding_task.hpp"

namespace orthornn::cuda {

void fill_adding_batch(const PhiloxStream& stream, TensorView<float> features, TensorView<float> values) {
  const Index length = features.shape()[0];
  const Index batch = features.shape()[1];
  float* input = features.data();
  float* target = values.data();
  const PhiloxStream draws = stream;
  for_each_entry(context(features.device()), batch, length, [=] __device__(Index b, Index t) {
    const auto number = [&](Index step) {
      return uniform_float(draws.bits(static_cast<std::uint64_t>(step * batch + b)));
    };
    // After the numbers come the two marked steps of each sequence.
    const auto marked = [&](Index which, Index steps) {
      const auto draw = static_cast<std::uint64_t>(length * batch + 2 * b + which);
      return static_cast<Index>(integer_below(static_cast<std::uint32_t>(steps), draws.bits(draw)));
    };
    const Index half = length / 2;
    const Index first = marked(0, half);
    const Index second = half + marked(1, length - half);
    const Index i = 2 * (t * batch + b);
    input[i] = number(t);
    input[i + 1] = t == first || t == second ? 1.0F : 0.0F;
    if (t == 0) target[b] = number(first) + number(second);
  });
}

}  // namespace orthornn::cuda
