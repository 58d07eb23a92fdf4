#include "layers/affine_map.hpp"

#include <algorithm>
#include <type_traits>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/layers/affine_map.hpp"
#include "cuda/layers/few_outputs.hpp"
#include "linalg/column_sums.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {

/// W in the order in which this kind of input reads it.
template <class T>
void AffineMap<T>::arrange(const SequenceInput<T>& input, ConstTensorView<T> w) const {
  const bool symbols = input.vectors.empty();
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

/// Whether a GPU has a kernel of its own for the gradients of this map.
template <class T>
bool AffineMap<T>::has_few_outputs(const SequenceInput<T>& input) const {
  return !input.vectors.empty() &&
         cuda::has_few_outputs(input_size_, output_size_, input.length() * input.batch());
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
  arrange(input, weights);
  // Nothing here is sequential, so threads share the steps; each step is one product of its own, so that one
  // step alone (generation) gives the same numbers.
  parallel_for(input.length(), 1, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) forward_columns(input, bias, y, t, 0, input.batch());
  });
}

template <class T>
void AffineMap<T>::forward_columns(const SequenceInput<T>& input, ConstTensorView<T> bias, TensorView<T> y,
                                   Index step, Index first, Index last) const {
  const bool symbols = input.vectors.empty();
  const MatrixView<T> a = columns_of(y[step]).columns(first, last - first);
  for (Index j = 0; j < a.cols; ++j) {
    T* column = a.column(j);
    if (symbols) {
      const T* w = columns_.data() + input.symbols(step, first + j) * output_size_;
      for (Index i = 0; i < output_size_; ++i) column[i] = w[i] + bias(i);
    } else if (bias.empty()) {
      std::fill_n(column, output_size_, T{0});
    } else {
      std::copy(bias.begin(), bias.end(), column);
    }
  }
  if (!symbols) packed_.multiply_add(1, columns_of(input.vectors[step]).columns(first, last - first), a);
}

template <class T>
void AffineMap<T>::backward(const SequenceInput<T>& input, ConstTensorView<T> weights, ConstTensorView<T> g,
                            const To& to, Saved& scratch) const {
  if constexpr (has_cuda_bodies && std::is_same_v<T, float>) {
    if (g.device().is_cuda() && has_few_outputs(input) && to.signed_bias.empty()) {
      return cuda::map_to_few_backward(weights, input.vectors, g,
                                       {.weights = to.weights,
                                        .bias = to.bias,
                                        .vectors = to.input,
                                        .adds_to_vectors = to.mode == Gradients::add});
    }
  }
  const MatrixView<const T> d_y = columns_of(g);
  const bool symbols = input.vectors.empty();
  // A GPU waits for memory here, so it reads g once.
  const bool few_inputs = !symbols && g.device().is_cuda() && input_size_ <= ColumnSums<T>::most_inputs;
  if (!to.bias.empty() || !to.signed_bias.empty() || few_inputs) {
    ColumnSums<T> sums{.total = to.bias, .signed_total = to.signed_bias, .states = to.states};
    if (symbols) {
      sums.by_symbol = to.weights;
      sums.symbols = input.symbols;
    } else if (few_inputs) {
      sums.by_input = to.weights;
      sums.inputs = input.vectors;
    }
    sum_columns<T>(d_y, sums, scratch);
  }
  if (!symbols && !few_inputs) {
    gemm<T>(1, columns_of(input.vectors), transposed(d_y), 0, columns_of(to.weights), execution_.precision);
  }
  if (!to.input.empty()) {
    gemm<T>(1, columns_of(weights), d_y, to.mode == Gradients::add ? 1 : 0, columns_of(to.input),
            execution_.precision);
  }
}

template class AffineMap<float>;
template class AffineMap<double>;

}  // namespace orthornn
