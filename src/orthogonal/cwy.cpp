#include "orthornn/orthogonal/cwy.hpp"

#include "orthogonal/reflection_vectors.hpp"
#include "products/plan.hpp"

namespace orthornn {

Parameter Cwy::parameter(Index hidden_size) const {
  return reflection_vectors_parameter(reflections, hidden_size);
}

template <class T>
TransitionParts<T> Cwy::parts(Index hidden_size, const Execution& execution) const {
  const Shape shape = parameter(hidden_size).shape;
  const auto vectors = [&](ReflectionFactors made) {
    return std::make_unique<ReflectionVectors<T>>(shape, init, made, execution.device);
  };
  switch (form == ReflectionForm::automatic ? fastest_form<T>(hidden_size, shape[0], execution) : form) {
    case ReflectionForm::factored: {
      auto factors = vectors(ReflectionFactors::units_and_s);
      auto product = factored_product<T>(factors->units(), factors->s_inverse());
      return {std::move(factors), std::move(product)};
    }
    case ReflectionForm::sequential: {
      auto factors = vectors(ReflectionFactors::units);
      auto product = tiled_product<T>(factors->units());
      return {std::move(factors), std::move(product)};
    }
    default:
      return dense_parts<T>(vectors(ReflectionFactors::matrix));
  }
}

template TransitionParts<float> Cwy::parts<float>(Index, const Execution&) const;
template TransitionParts<double> Cwy::parts<double>(Index, const Execution&) const;

}  // namespace orthornn
