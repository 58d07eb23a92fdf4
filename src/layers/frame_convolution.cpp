#include "layers/frame_convolution.hpp"

#include <algorithm>
#include <type_traits>

#include "core/back_end.hpp"
#include "core/for_each.hpp"
#include "cuda/layers/frame_convolution.hpp"
#include "layers/copy_to_rows.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {

template <class T>
FrameConvolution<T>::FrameConvolution(Index height, Index width, Index kernel_size, Index inputs,
                                      Index outputs, T factor, const Execution& execution)
    : around_{height, width, kernel_size / 2},
      inputs_(inputs),
      outputs_(outputs),
      factor_(factor),
      execution_(execution),
      kind_(kind_on(execution.device)) {}

template <class T>
typename FrameConvolution<T>::Neighbours FrameConvolution<T>::kind_on(Device device) const {
  if (around_.reach == 0) return Neighbours::of_one_pixel;
  if constexpr (has_cuda_bodies && std::is_same_v<T, float>) {
    // The kernels count the numbers of a frame in 32 bits, with some beyond it, and blocks of channels in 16.
    constexpr Index most_numbers = Index{1} << 25, most_channels = Index{1} << 16;
    const Index channels = std::max(inputs_, outputs_);
    const bool fits = channels <= most_channels && pixels() <= most_numbers / channels &&
                      around_.offsets() * inputs_ <= most_numbers / outputs_;
    if (device.is_cuda() && cuda::takes_side(around_.side()) && fits) return Neighbours::read_in_place;
  }
  return device.is_cuda() ? Neighbours::copied : Neighbours::read_in_place;
}

template <class T>
Shape FrameConvolution<T>::neighbours_shape(Index frames) const {
  return {kind_ == Neighbours::copied ? frames * pixels() : 0, around_.offsets() * inputs_};
}

template <class T>
Index FrameConvolution<T>::launches(Index times) const {
  // To copy, and a product, which may be three kernels.
  constexpr Index of_part = 4;
  return kind_ == Neighbours::copied ? times * of_part : of_part;
}

template <class T>
cuda::FrameMap FrameConvolution<T>::map_of(ConstTensorView<T> x) const {
  return {.frames = frames_of(x),
          .height = around_.height,
          .width = around_.width,
          .side = around_.side(),
          .inputs = inputs_,
          .outputs = outputs_,
          .factor = static_cast<float>(factor_),
          .exact = execution_.precision == Precision::fp32};
}

template <class T>
void FrameConvolution<T>::for_each_part(auto x, auto y, TensorView<T> neighbours, const auto& body) const {
  const auto of_pixels = [](auto view, Index channels) {
    return view.reshaped({view.size() / channels, channels});
  };
  const auto all_x = of_pixels(x, inputs_);
  const auto all_y = of_pixels(y, outputs_);
  const Index rows = kind_ == Neighbours::copied ? neighbours.shape()[0] : all_y.shape()[0];
  for (Index first = 0; first < all_y.shape()[0]; first += rows)
    body(all_x.slice(first, rows), all_y.slice(first, rows));
}

template <class T>
ConstTensorView<T> FrameConvolution<T>::neighbours_of(ConstTensorView<T> x, TensorView<T> neighbours) const {
  if (kind_ == Neighbours::of_one_pixel) return x;
  for_each_entry(x.device(), inputs_, x.shape()[0],
                 pointwise::GatherNeighbours<T>{around_, x.data(), neighbours.data(), inputs_});
  return neighbours;
}

template <class T>
void FrameConvolution<T>::apply(ConstTensorView<T> kernel, ConstTensorView<T> bias, ConstTensorView<T> x,
                                TensorView<T> y, TensorView<T> neighbours) const {
  if constexpr (has_cuda_bodies && std::is_same_v<T, float>) {
    if (is_read_by_gpu()) return cuda::add_convolution(map_of(x), kernel, bias, x, y, {});
  }
  copy_to_rows<T>(bias, y);
  add(kernel, x, y, neighbours);
}

template <class T>
void FrameConvolution<T>::add(ConstTensorView<T> kernel, ConstTensorView<T> x, TensorView<T> y,
                              TensorView<T> neighbours, const pointwise::ReluStep<T>& step) const {
  if constexpr (has_cuda_bodies && std::is_same_v<T, float>) {
    if (is_read_by_gpu()) return cuda::add_convolution(map_of(x), kernel, {}, x, y, step);
  }
  if (kind_ == Neighbours::read_in_place) {
    on_host().add(kernel.data(), x.data(), y.data(), frames_of(x));
  } else {
    for_each_part(x, y, neighbours, [&](ConstTensorView<T> from, TensorView<T> to) {
      gemm<T>(factor_, columns_of(kernel), columns_of(neighbours_of(from, neighbours)), 1, columns_of(to),
              execution_.precision);
    });
  }
  if (step.h != nullptr) for_each_entry(y.device(), step.size, y.size() / step.size, step);
}

template <class T>
void FrameConvolution<T>::add_kernel_gradient(ConstTensorView<T> x, ConstTensorView<T> g,
                                              TensorView<T> d_kernel, TensorView<T> neighbours) const {
  if constexpr (has_cuda_bodies && std::is_same_v<T, float>) {
    if (is_read_by_gpu()) return cuda::add_kernel_gradient(map_of(x), x, g, d_kernel);
  }
  if (kind_ == Neighbours::read_in_place)
    return on_host().add_kernel_gradient(x.data(), g.data(), d_kernel.data(), frames_of(x));
  for_each_part(x, g, neighbours, [&](ConstTensorView<T> from, ConstTensorView<T> of_outputs) {
    gemm<T>(factor_, columns_of(of_outputs), transposed(columns_of(neighbours_of(from, neighbours))), 1,
            columns_of(d_kernel), execution_.precision);
  });
}

template <class T>
void FrameConvolution<T>::add_input_gradient(ConstTensorView<T> kernel, ConstTensorView<T> g,
                                             TensorView<T> d_x, TensorView<T> neighbours,
                                             const pointwise::ReluStepBackward<T>& step) const {
  if constexpr (has_cuda_bodies && std::is_same_v<T, float>) {
    if (is_read_by_gpu()) return cuda::add_input_gradient(map_of(d_x), kernel, g, d_x, step);
  }
  if (kind_ == Neighbours::read_in_place) {
    on_host().add_input_gradient(kernel.data(), g.data(), d_x.data(), frames_of(d_x));
  } else {
    for_each_part(d_x, g, neighbours, [&](TensorView<T> to, ConstTensorView<T> of_outputs) {
      const bool is_one_pixel = kind_ == Neighbours::of_one_pixel;
      gemm<T>(factor_, transposed(columns_of(kernel)), columns_of(of_outputs), is_one_pixel ? 1 : 0,
              columns_of(is_one_pixel ? to : neighbours), execution_.precision);
      if (is_one_pixel) return;
      for_each_entry(to.device(), inputs_, to.shape()[0],
                     pointwise::AddNeighbours<T>{around_, neighbours.data(), to.data(), inputs_});
    });
  }
  if (step.d != nullptr) for_each_entry(d_x.device(), step.size, d_x.size() / step.size, step);
}

template class FrameConvolution<float>;
template class FrameConvolution<double>;

}  // namespace orthornn
