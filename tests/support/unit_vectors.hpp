#pragma once

#include "orthogonal/reflectors.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {

/// L random vectors of norm 1 as rows [L, N].
template <class T>
Tensor<T> unit_vectors(Index l, Index n, std::uint64_t seed) {
  Tensor<T> u({l, n}), norms({l});
  normalize_reflectors<T>(normal_tensor<T>({l, n}, seed), u, norms);
  return u;
}

}  // namespace orthornn::testing
