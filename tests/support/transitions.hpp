#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

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
  list.push_back({"free", Unconstrained{.init = init}});
  return list;
}

inline bool is_product_of_reflections(const TransitionOptions& options) {
  return std::holds_alternative<Cwy>(options) || std::holds_alternative<HouseholderProduct>(options);
}

/// Parameters that are nowhere special: normal, with entries of a generator such that |A| is near
/// `generator_norm`.
template <class T>
Tensor<T> some_parameters(const Transition<T>& transition, std::uint64_t seed, double generator_norm = 2) {
  const double n = static_cast<double>(transition.hidden_size());
  const bool skew = transition.parameter_name() == "skew_parameters";
  return normal_tensor<T>(transition.parameter_shape(), seed, skew ? generator_norm / std::sqrt(8 * n) : 1);
}

}  // namespace orthornn::testing
