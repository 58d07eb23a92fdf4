#include "layers/affine_map.hpp"

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/layers/affine_map.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {

/// W in the order in which this kind of input reads it.
template <class T>
void AffineMap<T>::arrange(bool symbols, ConstTensorView<T> w) const {
  if (symbols && !has_columns_) {
    columns_.reserve({input_size_, output_size_});
    for (Index n = 0; n < output_size_; ++n) {
      for (Index k = 0; k < input_size_; ++k) columns_(k, n) = w(n, k);
    }
    has_columns_ = true;
  } else if (!symbols && !is_packed_) {
    packed_.pack(transposed(columns_of(w)));
    is_packed_ = true;
  }
}

template <class T>
void AffineMap<T>::forward(const SequenceInput<T>& input, ConstTensorView<T> weights, ConstTensorView<T> bias,
                           TensorView<T> y, Saved& scratch) const {
  const bool symbols = input.vectors.empty();
  if constexpr (has_cuda_bodies) {
    if (y.device().is_cuda()) {
      if (!symbols) return cuda::multiply_vectors<T>(weights, bias, input.vectors, y, execution_.precision);
      const Saved::Scope scope(scratch);
      return cuda::pick_columns<T>(weights, bias, input.symbols, scratch.push<T>({input_size_, output_size_}),
                                   y);
    }
  }
  arrange(symbols, weights);
  // Nothing here is sequential, so threads share the steps; each step is one product of its own, so that one
  // step alone (generation) gives the same numbers.
  parallel_for(input.length(), 1, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) {
      const MatrixView<T> a = columns_of(y[t]);
      for (Index j = 0; j < a.cols; ++j) {
        T* column = a.column(j);
        if (symbols) {
          const T* w = columns_.data() + input.symbols(t, j) * output_size_;
          for (Index i = 0; i < output_size_; ++i) column[i] = w[i] + bias(i);
        } else if (bias.empty()) {
          std::fill_n(column, output_size_, T{0});
        } else {
          std::copy(bias.begin(), bias.end(), column);
        }
      }
      if (!symbols) packed_.multiply_add(1, columns_of(input.vectors[t]), a);
    }
  });
}

template <class T>
void AffineMap<T>::backward(const SequenceInput<T>& input, ConstTensorView<T> weights, ConstTensorView<T> g,
                            const To& to, Saved& scratch) const {
  if (!to.bias.empty()) sum_columns(input, g, to, scratch);
  const MatrixView<const T> d_y = columns_of(g);
  if (!input.vectors.empty()) {
    gemm<T>(1, columns_of(input.vectors), transposed(d_y), 0, columns_of(to.weights), execution_.precision);
  }
  if (!to.input.empty()) {
    gemm<T>(1, columns_of(weights), d_y, to.mode == Gradients::add ? 1 : 0, columns_of(to.input),
            execution_.precision);
  }
}

/// Everything but the products.
template <class T>
void AffineMap<T>::sum_columns(const SequenceInput<T>& input, ConstTensorView<T> g_view, const To& to,
                               Saved& scratch) const {
  const bool symbols = input.vectors.empty();
  if constexpr (has_cuda_bodies) {
    if (g_view.device().is_cuda()) {
      return cuda::sum_columns<T>(columns_of(g_view), {.total = to.bias,
                                                       .signed_total = to.signed_bias,
                                                       .states = to.states,
                                                       .by_symbol = symbols ? to.weights : TensorView<T>(),
                                                       .symbols = input.symbols});
    }
  }
  const MatrixView<const T> g = columns_of(g_view);
  const bool has_signs = !to.signed_bias.empty();
  const MatrixView<const T> h = has_signs ? columns_of(to.states) : MatrixView<const T>();
  const Saved::Scope scope(scratch);
  const TensorView<double> sums = scratch.push<double>({2, output_size_});
  const TensorView<double> d_columns = scratch.push<double>({symbols ? input_size_ : 0, output_size_});
  // One pass over G for all sums over its columns; threads share the rows, so every sum keeps its order. In
  // double: T * B terms in one float lose 1.6 per cent of two million equal gradients.
  parallel_for(g.rows, 16, [&](Index first, Index last) {
    const Index count = last - first;
    double* bias = &sums(0, first);
    double* signed_bias = &sums(1, first);
    std::fill(bias, bias + count, 0.0);
    std::fill(signed_bias, signed_bias + count, 0.0);
    for (Index k = 0; symbols && k < input_size_; ++k) {
      std::fill(&d_columns(k, first), &d_columns(k, first) + count, 0.0);
    }
    for (Index j = 0; j < g.cols; ++j) {
      const T* gradient = g.column(j) + first;
      for (Index i = 0; i < count; ++i) bias[i] += gradient[i];
      if (has_signs) {
        const T* state = h.column(j) + first;
        for (Index i = 0; i < count; ++i)
          signed_bias[i] += std::copysign(gradient[i], gradient[i] * state[i]);
      }
      if (symbols) {
        double* column = &d_columns(input.symbols.data()[j], first);
        for (Index i = 0; i < count; ++i) column[i] += gradient[i];
      }
    }
  });
  for (Index n = 0; n < output_size_; ++n) {
    to.bias(n) = static_cast<T>(sums(0, n));
    if (has_signs) to.signed_bias(n) = static_cast<T>(sums(1, n));
    for (Index k = 0; symbols && k < input_size_; ++k) to.weights(n, k) = static_cast<T>(d_columns(k, n));
  }
}

template class AffineMap<float>;
template class AffineMap<double>;

}  // namespace orthornn
