#include "cuda/core/convert.hpp"
#include "cuda/core/for_each.cuh"

namespace orthornn::cuda {
namespace {

template <class From, class To>
void convert_all(TensorView<const From> from, TensorView<To> to) {
  const From* source = from.data();
  To* target = to.data();
  for_each(context(to.device()), to.size(),
           [=] __device__(Index i) { target[i] = static_cast<To>(source[i]); });
}

}  // namespace

void convert(TensorView<const float> from, TensorView<bfloat16> to) { convert_all(from, to); }

void convert(TensorView<const bfloat16> from, TensorView<float> to) { convert_all(from, to); }

}  // namespace orthornn::cuda
