#pragma once

#include "orthornn/delta/delta_product.hpp"
#include "orthornn/layers/delta_heads.hpp"

namespace orthornn {

/// What a DeltaProductLayer does to the read-out of its heads, for T steps of B sequences. Row t B + b is
/// step t of sequence b.
template <class T>
struct DeltaReadout {
  DeltaHeads heads;
  Index length, batch;
  /// [T, B, M], the projections of the steps, which have the gates.
  const T* rows;
  /// [V], the gain of the norm; null without a norm.
  const T* gain;
  /// [B], or null.
  const std::int32_t* lengths;
  T epsilon;

  constexpr Index steps() const { return length * batch; }
  constexpr bool is_padding(Index row) const {
    return lengths != nullptr && row / batch >= lengths[row % batch];
  }
  /// Where the V numbers of a head's read-out begin, and where its gates do.
  constexpr Index place(Index row, Index head) const { return row * heads.outputs() + head * heads.value; }
  constexpr Index gate_place(Index row, Index head) const {
    return row * heads.width() + heads.first_gate() + head * heads.value;
  }
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
