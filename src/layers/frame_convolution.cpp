#include "layers/frame_convolution.hpp"

#include "core/for_each.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {

template <class T>
void FrameConvolution<T>::gather(ConstTensorView<T> x, TensorView<T> neighbours) const {
  for_each_entry(x.device(), inputs_, neighbours.shape()[0],
                 pointwise::GatherNeighbours<T>{around_, x.data(), neighbours.data(), inputs_});
}

template <class T>
void FrameConvolution<T>::add(ConstTensorView<T> kernel, ConstTensorView<T> x, TensorView<T> y,
                              TensorView<T> neighbours) const {
  gather(x, neighbours);
  gemm<T>(factor_, columns_of(kernel), columns_of(neighbours), 1,
          columns_of(y.reshaped({neighbours.shape()[0], outputs_})), execution_.precision);
}

template <class T>
void FrameConvolution<T>::backward(ConstTensorView<T> kernel, ConstTensorView<T> x, ConstTensorView<T> g,
                                   TensorView<T> d_kernel, TensorView<T> d_x,
                                   TensorView<T> neighbours) const {
  const MatrixView<const T> of_pixels = columns_of(g.reshaped({neighbours.shape()[0], outputs_}));
  gather(x, neighbours);
  gemm<T>(factor_, of_pixels, transposed(columns_of(neighbours)), 1, columns_of(d_kernel),
          execution_.precision);
  if (d_x.empty()) return;
  gemm<T>(factor_, transposed(columns_of(kernel)), of_pixels, 0, columns_of(neighbours),
          execution_.precision);
  for_each_entry(d_x.device(), inputs_, neighbours.shape()[0],
                 pointwise::AddNeighbours<T>{around_, neighbours.data(), d_x.data(), inputs_});
}

template class FrameConvolution<float>;
template class FrameConvolution<double>;

}  // namespace orthornn
