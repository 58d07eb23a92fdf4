#pragma once

#include <cmath>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "orthornn/delta/rank_one_chain.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {

/// Chains of factors that neither grow nor shrink much, with everything that goes in and comes out.
template <class T>
struct ChainCase {
  TokenLayout layout;
  RankOneChainOptions options;
  Tensor<T> left, right, left_scales, right_scales, initial_states, d_outputs, d_final_states;
  Tensor<T> outputs, final_states, d_left, d_right, d_left_scales, d_right_scales, d_initial_states;
  std::unique_ptr<Saved> saved = std::make_unique<Saved>(Device::cpu());

  ChainCase(TokenLayout where, Index heads, Index size, Index columns, RankOneChainOptions how,
            bool scaled = true)
      : layout(std::move(where)), options(how) {
    const Index rows = layout.rows();
    const double deviation = 1 / std::sqrt(static_cast<double>(size));
    left = normal_tensor<T>({rows, heads, size}, 1, deviation);
    right = normal_tensor<T>({rows, heads, size}, 2, deviation);
    if (scaled) {
      left_scales = normal_tensor<T>({rows, heads}, 3, 0.7);
      right_scales = normal_tensor<T>({rows, heads}, 4, 0.7);
    }
    initial_states = normal_tensor<T>({layout.size(), heads, size, columns}, 5);
    d_outputs = normal_tensor<T>({rows, heads, columns}, 6);
    d_final_states = normal_tensor<T>(initial_states.shape(), 7);
    outputs.resize(d_outputs.shape());
    final_states.resize(initial_states.shape());
    d_left.resize(left.shape());
    d_right.resize(right.shape());
    d_left_scales.resize(left_scales.shape());
    d_right_scales.resize(right_scales.shape());
    d_initial_states.resize(initial_states.shape());
  }

  RankOneChainInput<T> input() const {
    return {.left = left,
            .right = right,
            .left_scales = left_scales,
            .right_scales = right_scales,
            .initial_states = initial_states};
  }
  RankOneChainGradients<T> gradients() {
    return {.d_outputs = d_outputs,
            .d_final_states = d_final_states,
            .d_left = d_left,
            .d_right = d_right,
            .d_left_scales = d_left_scales,
            .d_right_scales = d_right_scales,
            .d_initial_states = d_initial_states};
  }
  void evaluate() { rank_one_chain<T>(input(), layout, options, outputs, final_states, *saved); }
  void run() {
    rank_one_chain_forward<T>(input(), layout, options, outputs, final_states, *saved);
    rank_one_chain_backward<T>(input(), layout, options, gradients(), *saved);
  }
  T left_scale(Index row, Index h) const { return left_scales.empty() ? T{1} : left_scales(row, h); }
  T right_scale(Index row, Index h) const { return right_scales.empty() ? T{1} : right_scales(row, h); }

  /// Moves all of it to a device.
  void move_to(Device device) {
    for (Tensor<T>* x :
         {&left, &right, &left_scales, &right_scales, &initial_states, &d_outputs, &d_final_states})
      *x = x->copy(device);
    for (auto [name, x] : results()) *x = x->copy(device);
    saved = std::make_unique<Saved>(device);
  }
  /// Everything that a run writes, with its name.
  std::vector<std::pair<const char*, Tensor<T>*>> results() {
    return {{"outputs", &outputs},
            {"final_states", &final_states},
            {"d_left", &d_left},
            {"d_right", &d_right},
            {"d_left_scales", &d_left_scales},
            {"d_right_scales", &d_right_scales},
            {"d_initial_states", &d_initial_states}};
  }
};

}  // namespace orthornn::testing
