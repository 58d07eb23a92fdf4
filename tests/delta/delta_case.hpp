#pragma once

#include <cmath>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "orthornn/delta/delta_product.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {

struct DeltaCaseSizes {
  Index factors = 2, heads = 2, key = 5, value = 7;
};

enum class Decay { none, of_heads, of_rows };

/// A delta product with everything that goes into it and comes out, drawn at random: keys of norm 1, betas
/// from 0 to 2, decays from e^-1 to 1 where `decay` says so.
template <class T>
struct DeltaCase {
  TokenLayout layout;
  DeltaProductOptions options;
  Tensor<T> queries, keys, values, betas, log_decays, removals, initial_states, d_outputs, d_final_states;
  Tensor<T> outputs, final_states;
  Tensor<T> d_queries, d_keys, d_values, d_betas, d_log_decays, d_removals, d_initial_states;
  std::unique_ptr<Saved> saved = std::make_unique<Saved>(Device::cpu());

  DeltaCase(TokenLayout where, const DeltaCaseSizes& sizes, DeltaProductOptions how = {},
            Decay decay = Decay::none, bool with_removals = false)
      : layout(std::move(where)), options(how) {
    const Index rows = layout.rows(), n = sizes.factors, h = sizes.heads, k = sizes.key, v = sizes.value;
    queries = normal_tensor<T>({rows, h, k}, 1);
    keys = normal_tensor<T>({rows, n, h, k}, 2);
    if (!options.unit_keys) {
      for (T* key = keys.begin(); key != keys.end(); key += k) {
        T squares = 0;
        for (Index i = 0; i < k; ++i) squares += key[i] * key[i];
        for (Index i = 0; i < k; ++i) key[i] /= std::sqrt(squares);
      }
    }
    values = normal_tensor<T>({rows, n, h, v}, 3);
    betas = normal_tensor<T>({rows, n, h}, 4);
    for (T& beta : betas) beta = 2 / (1 + std::exp(-beta));
    if (decay == Decay::of_heads) log_decays = normal_tensor<T>({rows, h}, 5);
    if (decay == Decay::of_rows) log_decays = normal_tensor<T>({rows, h, k}, 5);
    for (T& a : log_decays) a = -1 / (1 + std::exp(a));
    if (with_removals) removals = normal_tensor<T>(keys.shape(), 6);
    initial_states = normal_tensor<T>({layout.size(), h, k, v}, 7);
    d_outputs = normal_tensor<T>({rows, h, v}, 8);
    d_final_states = normal_tensor<T>(initial_states.shape(), 9);
    outputs.resize(d_outputs.shape());
    final_states.resize(initial_states.shape());
    d_queries.resize(queries.shape());
    d_keys.resize(keys.shape());
    d_values.resize(values.shape());
    d_betas.resize(betas.shape());
    d_log_decays.resize(log_decays.shape());
    d_removals.resize(removals.shape());
    d_initial_states.resize(initial_states.shape());
  }

  DeltaProductInput<T> input() const {
    return {.queries = queries,
            .keys = keys,
            .values = values,
            .betas = betas,
            .log_decays = log_decays,
            .removals = removals,
            .initial_states = initial_states};
  }
  DeltaProductGradients<T> gradients() {
    return {.d_outputs = d_outputs,
            .d_final_states = d_final_states,
            .d_queries = d_queries,
            .d_keys = d_keys,
            .d_values = d_values,
            .d_betas = d_betas,
            .d_log_decays = d_log_decays,
            .d_removals = d_removals,
            .d_initial_states = d_initial_states};
  }
  void forward() { delta_product_forward<T>(input(), layout, options, outputs, final_states, *saved); }
  void backward() { delta_product_backward<T>(input(), layout, options, gradients(), *saved); }
  void run() {
    forward();
    backward();
  }
  /// Without what a backward reads.
  void evaluate() { delta_product<T>(input(), layout, options, outputs, final_states, *saved); }

  /// Moves all of it to a device.
  void move_to(Device device) {
    for (Tensor<T>* x : {&queries, &keys, &values, &betas, &log_decays, &removals, &initial_states,
                         &d_outputs, &d_final_states})
      *x = x->copy(device);
    for (auto [name, x] : results()) *x = x->copy(device);
    saved = std::make_unique<Saved>(device);
  }

  /// Everything that a run writes, with its name.
  std::vector<std::pair<const char*, Tensor<T>*>> results() {
    return {{"outputs", &outputs},
            {"final_states", &final_states},
            {"d_queries", &d_queries},
            {"d_keys", &d_keys},
            {"d_values", &d_values},
            {"d_betas", &d_betas},
            {"d_log_decays", &d_log_decays},
            {"d_removals", &d_removals},
            {"d_initial_states", &d_initial_states}};
  }
};

}  // namespace orthornn::testing
