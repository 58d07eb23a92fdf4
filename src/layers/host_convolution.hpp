#pragma once
// Convolutions of frames on the CPU. No neighbourhoods are copied: rows of frames are, with zeros at both
// ends. There the numbers that a pixel sees in a row lie side by side, so a convolution is a few products of
// matrices for each row.

#include "pointwise/frames.hpp"

namespace orthornn {

/// The map factor K * x of frames x [frames, H, W, C] with a kernel K [q, q, C, F] in host memory. Around
/// frames there are zeros. Threaded over bands of rows of the frames; no bit depends on the number of
/// threads. Each call copies the kernel.
template <class T>
struct HostConvolution {
  pointwise::Neighbourhood around;  ///< H, W, and q = 2 reach + 1
  Index inputs, outputs;            ///< C, F
  T factor;

  /// y [frames, H, W, F] += factor K * x.
  void add(const T* kernel, const T* x, T* y, Index frames) const;
  /// d_x [frames, H, W, C] += its gradient, for a gradient g [frames, H, W, F] of y.
  void add_input_gradient(const T* kernel, const T* g, T* d_x, Index frames) const;
  /// d_kernel [q, q, C, F] += that of the kernel.
  void add_kernel_gradient(const T* x, const T* g, T* d_kernel, Index frames) const;
};

extern template struct HostConvolution<float>;
extern template struct HostConvolution<double>;

}  // namespace orthornn
