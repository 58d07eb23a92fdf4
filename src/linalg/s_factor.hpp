#pragma once
// S = I/2 + striu(U^T U), the triangular factor of a product of reflections (docs/math.md, section 1.1).

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// y = x S^-1, or y = x S^-T where `s` is a transpose, for x and y of L columns; y must not overlap x. In
/// host memory `s` is S, of which entries below the diagonal are not read. On a GPU it is S^-1, with zeros
/// there. docs/math.md, section 1.13, has the times of both ways.
template <class T>
void times_s_inverse(MatrixView<const std::type_identity_t<T>> x, std::type_identity_t<Operand<T>> s,
                     MatrixView<T> y);

}  // namespace orthornn
