#pragma once
// One factory a parametrization; make_transition (transition.cpp) chooses among them.

#include "orthornn/orthogonal/transition.hpp"

namespace orthornn {

template <class T>
std::unique_ptr<Transition<T>> make_cwy(const Cwy& options, Index hidden_size, const Execution& execution);
template <class T>
std::unique_ptr<Transition<T>> make_householder_product(const HouseholderProduct& options, Index hidden_size,
                                                        const Execution& execution);
template <class T>
std::unique_ptr<Transition<T>> make_scaled_cayley(const ScaledCayley& options, Index hidden_size,
                                                  const Execution& execution);
template <class T>
std::unique_ptr<Transition<T>> make_matrix_exponential(const MatrixExponential& options, Index hidden_size,
                                                       const Execution& execution);
template <class T>
std::unique_ptr<Transition<T>> make_unconstrained(const Unconstrained& options, Index hidden_size,
                                                  const Execution& execution);

}  // namespace orthornn
