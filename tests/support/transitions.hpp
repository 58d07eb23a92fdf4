#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "linalg/decompositions.hpp"
#include "orthornn/orthogonal/transition.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {

/// N, and the number L of reflections.
using ReflectionSizes = std::pair<Index, Index>;

struct NamedTransition {
  std::string name;
  TransitionOptions options;
};

/// Every way to compute a product of L reflections.
inline std::vector<NamedTransition> reflection_transitions(Index l, Init init = Init::henaff) {
  return {
      {"cwy dense", Cwy{.reflections = l, .init = init, .form = ReflectionForm::dense}},
      {"cwy factored", Cwy{.reflections = l, .init = init, .form = ReflectionForm::factored}},
      {"householder", HouseholderProduct{.reflections = l, .init = init, .rank_one_updates = false}},
      {"householder rank-one", HouseholderProduct{.reflections = l, .init = init, .rank_one_updates = true}}};
}

/// Every parametrization in every form, for hidden size n; the products with l reflections.
inline std::vector<NamedTransition> all_transitions(Index n, Index l, Init init = Init::henaff) {
  std::vector<NamedTransition> list = reflection_transitions(l, init);
  list.push_back({"cayley", ScaledCayley{.negative_signs = 0, .init = init}});
  list.push_back({"cayley with signs", ScaledCayley{.negative_signs = (n + 1) / 2, .init = init}});
  list.push_back({"expm", MatrixExponential{.init = init}});
  list.push_back({"own", WeightNormalization{.init = init}});
  list.push_back({"matrix", OrthogonalMatrix{.init = init}});
  list.push_back({"free", Unconstrained{.init = init}});
  return list;
}

/// Those that this build has on a device.
inline std::vector<NamedTransition> all_transitions_on(Device device, Index n, Index l,
                                                       Init init = Init::henaff) {
  std::vector<NamedTransition> list = all_transitions(n, l, init);
  if (!has_decompositions(device)) {
    std::erase_if(list, [](const NamedTransition& named) {
      return std::holds_alternative<WeightNormalization>(named.options);
    });
  }
  return list;
}

/// Whether the parameter is Q, whatever it is.
inline bool is_its_own_parameter(const TransitionOptions& options) {
  return std::holds_alternative<Unconstrained>(options) || std::holds_alternative<OrthogonalMatrix>(options);
}

inline bool is_product_of_reflections(const TransitionOptions& options) {
  return std::holds_alternative<Cwy>(options) || std::holds_alternative<HouseholderProduct>(options);
}

/// Parameters that are nowhere special: normal, with entries of a generator such that |A| is near
/// `generator_norm`, and with columns to be normalized that are far from dependent. A matrix that has to be
/// orthogonal is.
template <class T>
Tensor<T> some_parameters(const Transition<T>& transition, std::uint64_t seed, double generator_norm = 2) {
  const double n = static_cast<double>(transition.hidden_size());
  if (transition.parameter_kind() == ParameterKind::stiefel) {
    Tensor<T> q(transition.parameter_shape());
    make_transition<T>(OrthogonalMatrix{Init::haar}, transition.hidden_size())->initialize(seed, q);
    return q;
  }
  if (transition.parameter_name() == "proxy_matrix") {
    Tensor<T> v = normal_tensor<T>(transition.parameter_shape(), seed, 0.3 / std::sqrt(n));
    for (Index i = 0; i < transition.hidden_size(); ++i) v(i, i) += T{1};
    return v;
  }
  const bool skew = transition.parameter_name() == "skew_parameters";
  return normal_tensor<T>(transition.parameter_shape(), seed, skew ? generator_norm / std::sqrt(8 * n) : 1);
}

}  // namespace orthornn::testing
