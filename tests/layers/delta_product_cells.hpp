#pragma once

#include <utility>
#include <vector>

#include "orthornn/layers/layer_options.hpp"
#include "support/layer_case.hpp"

namespace orthornn::testing {

inline constexpr Index delta_product_inputs = 3;

/// Each option at least once; a large epsilon keeps gradients above rounding.
inline const std::vector<std::pair<const char*, DeltaProductCell>>& delta_product_cells() {
  const DeltaProductCell plain{.hidden_size = 4,
                               .heads = 2,
                               .key_size = 3,
                               .value_size = 2,
                               .householder = 1,
                               .readout_norm = ReadoutNorm::none,
                               .norm_epsilon = 0.5};
  static const auto list = [&] {
    std::vector<std::pair<const char*, DeltaProductCell>> cases;
    const auto add = [&](const char* name, const auto& change) {
      DeltaProductCell cell = plain;
      change(cell);
      cases.emplace_back(name, cell);
    };
    add("plain", [](auto&) {});
    add("two factors", [](auto& c) { c.householder = 2; });
    add("four factors, norm", [](auto& c) {
      c.householder = 4;
      c.readout_norm = ReadoutNorm::rms;
    });
    add("decay", [](auto& c) { c.state_decay = true; });
    add("gate", [](auto& c) { c.output_gate = true; });
    add("projections alone", [](auto& c) { c.beta_limit = 1; });
    add("vectors without SiLU, a learned initial state", [](auto& c) {
      c.householder = 2;
      c.vector_activation = VectorActivation::identity;
      c.beta_offset = 1;
      c.learn_initial_state = true;
    });
    add("a learned initial state without values", [](auto& c) {
      c.householder = 2;
      c.learn_initial_state = c.without_values = true;
    });
    add("a convolution of one step", [](auto& c) { c.convolution = 1; });
    add("convolution", [](auto& c) { c.convolution = 4; });
    add("factors of RWKV-7", [](auto& c) {
      c.householder = 2;
      c.factor = DeltaFactorKind::rwkv7;
    });
    add("everything, factors of RWKV-7", [](auto& c) {
      c.householder = 3;
      c.factor = DeltaFactorKind::rwkv7;
      c.readout_norm = ReadoutNorm::rms;
      c.state_decay = true;
      c.output_gate = true;
      c.convolution = 2;
    });
    add("everything", [](auto& c) {
      c.householder = 2;
      c.readout_norm = ReadoutNorm::rms;
      c.state_decay = true;
      c.output_gate = true;
      c.convolution = 2;
    });
    return cases;
  }();
  return list;
}

/// Adds such a layer to a ParameterSet.
template <class T>
auto delta_product_maker(const LayerOptions& options, const Execution& execution = {}) {
  return [=](ParameterSet<T>& parameters) {
    return make_layer<T>(parameters, "layer", options, delta_product_inputs, execution);
  };
}

}  // namespace orthornn::testing
