#include "orthornn/orthogonal/cwy.hpp"

#include "orthogonal/reflection_vectors.hpp"
#include "plan/plan.hpp"

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
  const bool dense = form == ReflectionForm::automatic ? dense_is_faster<T>(hidden_size, shape[0], execution)
                                                       : form == ReflectionForm::dense;
  if (dense) return dense_parts<T>(vectors(ReflectionFactors::matrix));
  auto factors = vectors(ReflectionFactors::units_and_s);
  auto product = factored_product<T>(factors->units(), factors->s_inverse());
  return {std::move(factors), std::move(product)};
}

template TransitionParts<float> Cwy::parts<float>(Index, const Execution&) const;
template TransitionParts<double> Cwy::parts<double>(Index, const Execution&) const;

}  // namespace orthornn
