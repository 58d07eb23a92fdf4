#pragma once
// The operations of orthornn::ExponentialOf other than products.

#include <array>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// |a|_1, the largest column sum. Synchronizes.
template <class T>
double one_norm(MatrixView<const T> a);
/// to <- scale * from, matrices without gaps between columns, as in `add_terms`.
template <class T>
void assign_scaled(T scale, MatrixView<const T> from, MatrixView<T> to);
/// to += c_0 I + c_1 powers_0 + c_2 powers_1 + c_3 powers_2, or without c_0 I.
template <class T>
void add_terms(const std::array<T, 4>& c, const std::array<MatrixView<const T>, 3>& powers,
               bool with_identity, MatrixView<T> to);

}  // namespace orthornn::cuda
