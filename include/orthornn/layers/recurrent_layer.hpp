#pragma once

#include <memory>
#include <string>
#include <variant>

#include "orthornn/layers/gru_layer.hpp"
#include "orthornn/layers/lstm_layer.hpp"
#include "orthornn/layers/orthogonal_layer.hpp"

namespace orthornn {

/// A recurrent layer as plain values.
using RecurrentOptions = std::variant<OrthogonalCell, Lstm, Gru>;

inline Index hidden_size_of(const RecurrentOptions& options) {
  return std::visit([](const auto& chosen) { return chosen.hidden_size; }, options);
}

/// L of a product of reflections, 0 for N; nullptr for other layers.
inline const Index* reflections_of(const RecurrentOptions& options) {
  const auto* orthogonal = std::get_if<OrthogonalCell>(&options);
  return orthogonal == nullptr ? nullptr : reflections_of(orthogonal->transition);
}

/// Adds the parameters of such a layer to the set, without memory for a layer. Throws ValueError for sizes
/// that do not fit.
template <class T>
void add_recurrent_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                              const RecurrentOptions& options, Index input_size);

/// The one place where options become layers. Throws as `add_recurrent_parameters`.
template <class T>
std::unique_ptr<Layer<T>> make_recurrent_layer(ParameterSet<T>& parameters, const std::string& prefix,
                                               const RecurrentOptions& options, Index input_size,
                                               const Execution& execution = {});

}  // namespace orthornn
