#pragma once

#include <string>

#include "orthornn/layers/layer.hpp"

namespace orthornn {

/// A layer that returns the learned vector of each symbol, y = E[s]. Its parameter is PREFIX/vectors [K, N].
template <class T>
class EmbeddingLayer final : public Layer<T> {
 public:
  /// Adds the vectors of K = `symbols` symbols, N = `size` numbers each, to the set and returns their number
  /// in it. Throws ValueError for sizes below 1.
  static Index add_parameters(ParameterSet<T>& parameters, const std::string& prefix, Index symbols,
                              Index size);

  /// Makes a layer and adds its parameters to the set. Throws as `add_parameters`.
  EmbeddingLayer(ParameterSet<T>& parameters, const std::string& prefix, Index symbols, Index size);

  /// Draws the vectors from N(0, 1 / N), so that a vector has a norm of about 1.
  // Validation losses in translation, with tied vectors of 512 numbers: from N(0, 1) CWY (L = 128) has 1.457
  // and LSTM 1.415, from N(0, 1 / 25) 1.380 and 1.382, and CWY from N(0, 1 / 400) 1.368.
  void initialize(std::uint64_t seed) override;
  LayerDescription describe(Index, Index) const override { return this->description("embedding"); }

 private:
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;
  /// Most vectors have no symbol in a batch, so a copy of them all would cost more than their gradient.
  bool adds_gradients() const override { return true; }

  Index vectors_;
};

extern template class EmbeddingLayer<float>;
extern template class EmbeddingLayer<double>;

}  // namespace orthornn
