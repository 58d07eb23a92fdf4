#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "orthornn/layers/embedding_layer.hpp"
#include "orthornn/layers/layer_options.hpp"
#include "orthornn/layers/stack_layer.hpp"

namespace orthornn::testing {

/// A kind of layer: `make(execution)` returns what adds such a layer to a ParameterSet.
template <class T>
struct LayerKind {
  using Add = std::function<std::unique_ptr<Layer<T>>(ParameterSet<T>&)>;

  std::string name;
  bool reads_vectors, reads_symbols;
  std::function<Add(const Execution&)> make;
};

/// Every kind of layer with K inputs, and N outputs where it has a choice, but positions, whose state counts
/// (positions_layer_test.cpp). tanh is smooth, so that finite
/// differences see no kinks. A large epsilon keeps the gradient of a normalised single number above rounding.
template <class T>
std::vector<LayerKind<T>> all_layers(Index k, Index n) {
  std::vector<LayerKind<T>> kinds;
  const auto add_kind = [&](const std::string& name, bool vectors, bool symbols, const auto& make) {
    kinds.push_back({name, vectors, symbols, [make](const Execution& execution) {
                       return [make, execution](ParameterSet<T>& parameters) -> std::unique_ptr<Layer<T>> {
                         return make(parameters, execution);
                       };
                     }});
  };
  const auto orthogonal = [&](const std::string& name, const OrthogonalCell& cell) {
    add_kind(name, true, true, [cell, k](ParameterSet<T>& parameters, const Execution& execution) {
      return std::make_unique<OrthogonalLayer<T>>(parameters, "layer", cell, k, execution);
    });
  };
  orthogonal("orthogonal", {.hidden_size = n,
                            .transition = Cwy{.reflections = (n + 1) / 2, .form = ReflectionForm::dense},
                            .activation = Activation::tanh,
                            .learn_initial_state = true});
  orthogonal("orthogonal, factored",
             {.hidden_size = n,
              .transition = Cwy{.reflections = (n + 1) / 2, .form = ReflectionForm::factored},
              .activation = Activation::tanh,
              .input_matrix = k <= n ? InputMatrix::stiefel : InputMatrix::free});
  add_kind("linear", true, true, [k, n](ParameterSet<T>& parameters, const Execution& execution) {
    return std::make_unique<LinearLayer<T>>(parameters, "layer", k, n, execution);
  });
  add_kind("embedding", false, true, [k, n](ParameterSet<T>& parameters, const Execution&) {
    return std::make_unique<EmbeddingLayer<T>>(parameters, "layer", k, n);
  });
  add_kind("lstm", true, true, [k, n](ParameterSet<T>& parameters, const Execution& execution) {
    return std::make_unique<LstmLayer<T>>(parameters, "layer", Lstm{n}, k, execution);
  });
  add_kind("gru", true, true, [k, n](ParameterSet<T>& parameters, const Execution& execution) {
    return std::make_unique<GruLayer<T>>(parameters, "layer", Gru{n}, k, execution);
  });
  const auto made = [&](const std::string& name, bool symbols, const LayerOptions& options) {
    add_kind(name, true, symbols, [options, k](ParameterSet<T>& parameters, const Execution& execution) {
      return make_layer<T>(parameters, "layer", options, k, execution);
    });
  };
  const OrthogonalCell learned_start{.hidden_size = k,
                                     .transition = Cwy{.reflections = (k + 1) / 2},
                                     .activation = Activation::tanh,
                                     .learn_initial_state = true};
  // Of the delta product there are cases of its own (delta_product_layer_test.cpp).
  made("delta product", true,
       DeltaProductCell{.hidden_size = n,
                        .heads = 2,
                        .key_size = 3,
                        .value_size = 2,
                        .householder = 2,
                        .state_decay = true,
                        .convolution = 3,
                        .norm_epsilon = 0.5,
                        .output_gate = true});
  made("convneru", false, ConvNeru{.hidden_size = 2, .height = k, .width = 1});
  made("convlstm", false, ConvLstm{.hidden_size = 2, .height = k, .width = 1});
  made("convlstm with peepholes", false,
       ConvLstm{.hidden_size = 2, .height = k, .width = 1, .peepholes = true});
  made("orthogonal linear", true, OrthogonalLinear{.outputs = n});
  made("orthogonal linear of few outputs", true,
       OrthogonalLinear{.outputs = (k + 1) / 2, .matrix = StiefelKind::matrix});
  made("orthogonal convolution", false, OrthogonalConv{.channels = 2, .height = k, .width = 1});
  made("orthogonal convolution of many channels", false,
       OrthogonalConv{.channels = 4, .height = k, .width = 1, .kernel_size = 1});
  made("gated mlp", false, GatedMlp{.mlp_size = 4});
  made("rms norm", false, RmsNorm{.epsilon = 0.5});
  made("dropout", false, Dropout{.rate = 0.25});
  made("residual", false, Residual{{learned_start, Dropout{.rate = 0.25}}});
  made("bidirectional", true, Bidirectional{{Gru{n}, RmsNorm{.epsilon = 0.5}}});
  add_kind("stack", true, true, [k, n](ParameterSet<T>& parameters, const Execution& execution) {
    std::vector<std::unique_ptr<Layer<T>>> layers;
    Index size = k;
    for (const LayerOptions& options :
         {LayerOptions(Linear{n}), LayerOptions(Residual{{Lstm{n}, Dropout{.rate = 0.25}}}),
          LayerOptions(Gru{n})}) {
      layers.push_back(
          make_layer<T>(parameters, "layer/" + std::to_string(layers.size()), options, size, execution));
      size = layers.back()->output_size();
    }
    return std::make_unique<StackLayer<T>>(std::move(layers));
  });
  return kinds;
}

}  // namespace orthornn::testing
