#include "cells/input_product.hpp"

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/cells/input_product.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {

template <class T>
InputProduct<T>::InputProduct(Index hidden_size, Index input_size, const Execution& execution)
    : hidden_size_(hidden_size),
      input_size_(input_size),
      execution_(execution),
      columns_(Shape{0}, execution.device) {}

/// W as the kind of input that came wants it, once after each change.
template <class T>
void InputProduct<T>::prepare(bool symbols, ConstTensorView<T> w) {
  if (symbols && !has_columns_) {
    columns_.reserve({input_size_, hidden_size_});
    for (Index n = 0; n < hidden_size_; ++n) {
      for (Index k = 0; k < input_size_; ++k) columns_(k, n) = w(n, k);
    }
    has_columns_ = true;
  } else if (!symbols && !is_packed_) {
    packed_.pack(transposed(columns_of(w)));
    is_packed_ = true;
  }
}

template <class T>
void InputProduct<T>::forward(const SequenceInput<T>& input, ConstTensorView<T> weights,
                              ConstTensorView<T> bias, TensorView<T> all) {
  const bool symbols = input.vectors.empty();
  if constexpr (has_cuda_bodies) {
    if (all.device().is_cuda()) {
      if (!symbols) {
        return cuda::multiply_vectors<T>(weights, bias, input.vectors, all, execution_.precision);
      }
      columns_.reserve({input_size_, hidden_size_});
      return cuda::pick_columns<T>(weights, bias, input.symbols, columns_, all);
    }
  }
  prepare(symbols, weights);
  // Nothing here is sequential, so threads share the steps; each step is one product of its own, so that one
  // step alone (generation) gives the same numbers.
  parallel_for(input.length(), 1, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) {
      const MatrixView<T> a = columns_of(all[t]);
      for (Index j = 0; j < a.cols; ++j) {
        T* column = a.column(j);
        if (symbols) {
          const T* w = columns_.data() + input.symbols(t, j) * hidden_size_;
          for (Index i = 0; i < hidden_size_; ++i) column[i] = w[i] + bias(i);
        } else {
          std::copy(bias.begin(), bias.end(), column);
        }
      }
      if (!symbols) packed_.multiply_add(1, columns_of(input.vectors[t]), a);
    }
  });
}

template <class T>
void InputProduct<T>::backward(const SequenceInput<T>& input, ConstTensorView<T> weights,
                               ConstTensorView<T> g, ConstTensorView<T> h, const Gradients& gradients) {
  sum_gradients(input, g, h, gradients);
  const MatrixView<const T> d_a = columns_of(g);
  if (!input.vectors.empty()) {
    gemm<T>(1, columns_of(input.vectors), transposed(d_a), 0, columns_of(gradients.weights),
            execution_.precision);
  }
  if (!gradients.input.empty()) {
    gemm<T>(1, columns_of(weights), d_a, 0, columns_of(gradients.input), execution_.precision);
  }
}

/// Everything but the products.
template <class T>
void InputProduct<T>::sum_gradients(const SequenceInput<T>& input, ConstTensorView<T> g_view,
                                    ConstTensorView<T> h_view, const Gradients& gradients) {
  const bool symbols = input.vectors.empty();
  if constexpr (has_cuda_bodies) {
    if (g_view.device().is_cuda()) {
      return cuda::sum_columns<T>(g_view, {.total = gradients.bias,
                                           .signed_total = gradients.modrelu_bias,
                                           .states = h_view,
                                           .by_symbol = symbols ? gradients.weights.data() : nullptr,
                                           .symbol_count = input_size_,
                                           .symbol_stride = 1,
                                           .row_stride = input_size_,
                                           .symbols = input.symbols});
    }
  }
  const MatrixView<const T> g = columns_of(g_view);
  const MatrixView<const T> h = columns_of(h_view);
  const bool has_modrelu = !gradients.modrelu_bias.empty();
  if (symbols) d_columns_.reserve({input_size_, hidden_size_});
  sums_.reserve({2, hidden_size_});
  // One pass over G for all sums over its columns; threads share the rows, so every sum keeps its order. In
  // double: T * B terms in one float lose 1.6 per cent of two million equal gradients.
  parallel_for(g.rows, 16, [&](Index first, Index last) {
    const Index count = last - first;
    double* bias = &sums_(0, first);
    double* modrelu = &sums_(1, first);
    std::fill(bias, bias + count, 0.0);
    std::fill(modrelu, modrelu + count, 0.0);
    for (Index k = 0; symbols && k < input_size_; ++k) {
      std::fill(&d_columns_(k, first), &d_columns_(k, first) + count, 0.0);
    }
    for (Index j = 0; j < g.cols; ++j) {
      const T* gradient = g.column(j) + first;
      for (Index i = 0; i < count; ++i) bias[i] += gradient[i];
      if (has_modrelu) {
        const T* state = h.column(j) + first;
        for (Index i = 0; i < count; ++i) modrelu[i] += std::copysign(gradient[i], gradient[i] * state[i]);
      }
      if (symbols) {
        double* column = &d_columns_(input.symbols.data()[j], first);
        for (Index i = 0; i < count; ++i) column[i] += gradient[i];
      }
    }
  });
  for (Index n = 0; n < hidden_size_; ++n) {
    gradients.bias(n) = static_cast<T>(sums_(0, n));
    if (has_modrelu) gradients.modrelu_bias(n) = static_cast<T>(sums_(1, n));
    for (Index k = 0; symbols && k < input_size_; ++k)
      gradients.weights(n, k) = static_cast<T>(d_columns_(k, n));
  }
}

template class InputProduct<float>;
template class InputProduct<double>;

}  // namespace orthornn
