#include "orthornn/layers/embedding_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/set_zero.hpp"
#include "cuda/layers/embedding.hpp"
#include "layers/add_by_symbol.hpp"
#include "layers/initialization.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// y [T, B, N] <- the vectors [K, N] of the symbols [T, B].
template <class T>
void embed(TensorView<const T> vectors, TensorView<const std::int32_t> symbols, TensorView<T> y) {
  if constexpr (has_cuda_bodies) {
    if (y.device().is_cuda()) return cuda::embed<T>(vectors, symbols, y);
  }
  T* feature = y.data();
  for (const std::int32_t symbol : symbols) {
    feature = std::copy_n(vectors[symbol].data(), vectors.shape()[1], feature);
  }
}

}  // namespace

template <class T>
Index EmbeddingLayer<T>::add_parameters(ParameterSet<T>& parameters, const std::string& prefix, Index symbols,
                                        Index size) {
  if (symbols < 1 || size < 1) {
    throw ValueError(
        fmt::format("an embedding of {} tokens of size {}; expected at least 1 of each", symbols, size));
  }
  return parameters.add(prefix + "/vectors", {symbols, size});
}

template <class T>
EmbeddingLayer<T>::EmbeddingLayer(ParameterSet<T>& parameters, const std::string& prefix, Index symbols,
                                  Index size)
    : Layer<T>(parameters, symbols, size), vectors_(add_parameters(parameters, prefix, symbols, size)) {
  this->parameters_added();
}

template <class T>
void EmbeddingLayer<T>::initialize(std::uint64_t seed) {
  RandomStream random(seed, RandomPurpose::initialization, 4);
  draw_normal<T>(this->parameters_.value(vectors_), 1 / std::sqrt(static_cast<double>(this->output_size())),
                 random);
}

template <class T>
TensorView<const T> EmbeddingLayer<T>::run_forward(const SequenceInput<T>& input, States<const T>, States<T>,
                                                   Saved& saved) const {
  if (input.symbols.empty()) throw ValueError("an embedding was given vectors; it reads symbols");
  const TensorView<T> y = saved.push<T>({input.length(), input.batch(), this->output_size()});
  embed<T>(this->value(vectors_), input.symbols, y);
  return y;
}

template <class T>
void EmbeddingLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                                     bool, Saved&, Saved& scratch) const {
  const TensorView<T> gradient = this->gradient(vectors_);
  if (arguments.parameters == Gradients::overwrite) set_zero(gradient);
  add_by_symbol<T>(arguments.d_output, input.symbols, gradient, scratch);
}

template class EmbeddingLayer<float>;
template class EmbeddingLayer<double>;

}  // namespace orthornn
