#pragma once
// Bodies over the entries of matrices: column-major ones with a stride between columns, and square ones in C
// order.

#include "orthornn/core/shape.hpp"
#include "orthornn/scalar/activation.hpp"

namespace orthornn::pointwise {

/// place [1] <- value.
template <class U>
struct SetValue {
  U* place;
  U value;

  constexpr void operator()(Index) const { *place = value; }
};

/// to <- a + b.
template <class T>
struct Sum {
  const T* a;
  const T* b;
  T* to;

  constexpr void operator()(Index i) const { to[i] = a[i] + b[i]; }
};

/// to += from.
template <class T>
struct AddMatrix {
  const T* from;
  Index from_stride;
  T* to;
  Index to_stride;

  constexpr void operator()(Index i, Index j) const { to[i + j * to_stride] += from[i + j * from_stride]; }
};

/// Adds x to entry i of the diagonal.
template <class T>
struct AddToDiagonal {
  T* matrix;
  Index stride;
  T x;

  constexpr void operator()(Index i) const { matrix[i + i * stride] += x; }
};

/// M <- striu(M) + striu(M)^T, in place.
template <class T>
struct SymmetrizeStrictUpper {
  T* m;
  Index stride;

  constexpr void operator()(Index i, Index j) const {
    if (i >= j) m[i + j * stride] = i == j ? T{0} : m[j + i * stride];
  }
};

/// to <- scale * from.
template <class T>
struct AssignScaled {
  T scale;
  const T* from;
  T* to;

  constexpr void operator()(Index e) const { to[e] = scale * from[e]; }
};

/// to += c_0 I + c_1 first + c_2 second + c_3 third, matrices of `rows` rows without gaps between columns.
template <class T>
struct AddTerms {
  T c0, c1, c2, c3;
  const T* first;
  const T* second;
  const T* third;
  T* to;
  Index rows;

  constexpr void operator()(Index e) const {
    T sum = to[e];
    if (e % (rows + 1) == 0) sum += c0;
    to[e] = sum + c1 * first[e] + c2 * second[e] + c3 * third[e];
  }
};

/// q = (2 k - I) D [N, N], where the first `negative_signs` entries of D are -1 and the others 1.
template <class T>
struct CayleyTransform {
  const T* k;
  T* q;
  Index size, negative_signs;

  constexpr void operator()(Index j, Index i) const {
    const T value = 2 * k[i * size + j] - (i == j ? T{1} : T{0});
    q[i * size + j] = j < negative_signs ? -value : value;
  }
};

/// result = x D [N, N], where the first `negative_signs` entries of D are -1 and the others 1.
template <class T>
struct TimesSigns {
  const T* x;
  T* result;
  Index size, negative_signs;

  constexpr void operator()(Index j, Index i) const {
    const T value = x[i * size + j];
    result[i * size + j] = j < negative_signs ? -value : value;
  }
};

/// A <- A^T, [N, N].
template <class T>
struct TransposeInPlace {
  T* a;
  Index size;

  constexpr void operator()(Index j, Index i) const {
    if (j >= i) return;
    const T lower = a[i * size + j];
    a[i * size + j] = a[j * size + i];
    a[j * size + i] = lower;
  }
};

/// d_x = d_a - d_a^T, [N, N].
template <class T>
struct SkewGradient {
  const T* d_a;
  T* d_x;
  Index size;

  constexpr void operator()(Index j, Index i) const {
    d_x[i * size + j] = d_a[i * size + j] - d_a[j * size + i];
  }
};

/// x <- tanh(x).
template <class T>
struct Tanh {
  T* x;

  constexpr void operator()(Index i) const { x[i] = activate(Activation::tanh, x[i], T{0}); }
};

/// d <- (1 - y^2) d.
template <class T>
struct TanhBackward {
  const T* y;
  T* d;

  constexpr void operator()(Index i) const {
    d[i] = differentiate(Activation::tanh, y[i], std::int8_t{0}, d[i]);
  }
};

}  // namespace orthornn::pointwise
