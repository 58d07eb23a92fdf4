#pragma once

#include "orthornn/delta/delta_product.hpp"
#include "orthornn/layers/delta_heads.hpp"

namespace orthornn {

/// What a DeltaProductLayer does to the read-out of its heads.
template <class T>
struct DeltaReadout {
  DeltaHeads heads;
  /// [T, B, M], the projections of the steps, which have the gates.
  TensorView<const T> rows;
  /// [V], the gain of the norm; empty without a norm.
  TensorView<const T> gain;
  TensorView<const std::int32_t> lengths;
  T epsilon;
};

namespace cuda {

/// As those of orthornn (src/layers/delta_outputs.hpp).
template <class T, class X>
void write_outputs(const DeltaReadout<T>& r, TensorView<const X> o, TensorView<T> y);
template <class T, class X>
void write_outputs_backward(const DeltaReadout<T>& r, TensorView<const X> o, TensorView<T> d_y,
                            TensorView<X> d_o, TensorView<T> d_rows);

}  // namespace cuda
}  // namespace orthornn
