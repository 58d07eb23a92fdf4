#include "cuda/core/for_each_entry.cuh"
#include "cuda/tasks/mnist_task.hpp"

namespace orthornn::cuda {

void fill_mnist_batch(TensorView<const std::uint8_t> pixels, TensorView<const std::uint8_t> labels,
                      TensorView<const std::int32_t> order, Index first,
                      TensorView<const std::int32_t> input_order, TensorView<float> features,
                      TensorView<std::int32_t> classes) {
  const Index length = features.shape()[0];
  const Index batch = features.shape()[1];
  const std::uint8_t* all_pixels = pixels.data();
  const std::uint8_t* all_labels = labels.data();
  const std::int32_t* image_at = order.empty() ? nullptr : order.data() + first;
  const std::int32_t* pixel_at = input_order.empty() ? nullptr : input_order.data();
  float* input = features.data();
  std::int32_t* target = classes.data();
  for_each_entry(context(features.device()), batch, length, [=] __device__(Index b, Index t) {
    const Index image = image_at != nullptr ? image_at[b] : first + b;
    const Index pixel = pixel_at != nullptr ? pixel_at[t] : t;
    input[t * batch + b] = static_cast<float>(all_pixels[image * length + pixel]) / 255.0F;
    if (t == 0) target[b] = all_labels[image];
  });
}

}  // namespace orthornn::cuda
