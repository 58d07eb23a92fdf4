#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Scales all gradients by max_norm / norm where their common Euclidean norm is above max_norm (Pascanu,
/// Mikolov and Bengio, "On the difficulty of training recurrent neural networks", ICML 2013, algorithm 1).
/// Returns the norm before.
///
/// gradients: any shape, usually the flat buffer of a ParameterSet. max_norm 0 only measures. A norm that is
/// not finite leaves the gradients as they are: whoever asked should stop. Summed in double in a fixed order,
/// so the result does not depend on the number of threads; allocates nothing. Throws ValueError for a
/// negative max_norm or NaN.
template <class T>
double clip_by_global_norm(TensorView<T> gradients, double max_norm);
/// The same with the norm left in `norm` [1] on the device of the gradients, so that nothing waits for a GPU.
template <class T>
void clip_by_global_norm(TensorView<T> gradients, double max_norm, TensorView<double> norm);

}  // namespace orthornn
