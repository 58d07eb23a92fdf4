#pragma once
// One overload a parametrization; make_transition (transition.cpp) chooses among them.

#include "orthornn/orthogonal/transition.hpp"

namespace orthornn {

template <class T>
std::unique_ptr<Transition<T>> make(const Cwy& options, Index hidden_size, const Execution& execution);
template <class T>
std::unique_ptr<Transition<T>> make(const HouseholderProduct& options, Index hidden_size,
                                    const Execution& execution);
template <class T>
std::unique_ptr<Transition<T>> make(const ScaledCayley& options, Index hidden_size,
                                    const Execution& execution);
template <class T>
std::unique_ptr<Transition<T>> make(const MatrixExponential& options, Index hidden_size,
                                    const Execution& execution);
template <class T>
std::unique_ptr<Transition<T>> make(const Unconstrained& options, Index hidden_size,
                                    const Execution& execution);

}  // namespace orthornn
