#include "cuda/core/convert.hpp"
#include "cuda/core/for_each.cuh"

namespace orthornn::cuda {
namespace {

// Numbers that a thread reads before it writes one: with a single one, it waits for memory most of the time.
constexpr Index at_once = 8;

template <class From, class To>
void convert_all(TensorView<const From> from, TensorView<To> to) {
  const From* source = from.data();
  To* target = to.data();
  const Index count = to.size(), part = (count + at_once - 1) / at_once;
  // Neighbouring threads have neighbouring numbers of each part.
  for_each(context(to.device()), part, [=] __device__(Index i) {
    From numbers[at_once];
#pragma unroll
    for (Index k = 0; k < at_once; ++k) {
      if (i + k * part < count) numbers[k] = source[i + k * part];
    }
#pragma unroll
    for (Index k = 0; k < at_once; ++k) {
      if (i + k * part < count) target[i + k * part] = static_cast<To>(numbers[k]);
    }
  });
}

}  // namespace

void convert(TensorView<const float> from, TensorView<bfloat16> to) { convert_all(from, to); }

void convert(TensorView<const bfloat16> from, TensorView<float> to) { convert_all(from, to); }

}  // namespace orthornn::cuda
