#include "orthornn/orthogonal/householder_product.hpp"

#include "orthogonal/reflection_vectors.hpp"

namespace orthornn {

Parameter HouseholderProduct::parameter(Index hidden_size) const {
  return reflection_vectors_parameter(reflections, hidden_size);
}

template <class T>
TransitionParts<T> HouseholderProduct::parts(Index hidden_size, const Execution& execution) const {
  auto vectors = std::make_unique<ReflectionVectors<T>>(parameter(hidden_size).shape, init,
                                                        ReflectionFactors::units, execution.device);
  auto product =
      rank_one_updates ? rank_one_product<T>(vectors->units()) : tiled_product<T>(vectors->units());
  return {std::move(vectors), std::move(product)};
}

template TransitionParts<float> HouseholderProduct::parts<float>(Index, const Execution&) const;
template TransitionParts<double> HouseholderProduct::parts<double>(Index, const Execution&) const;

}  // namespace orthornn
