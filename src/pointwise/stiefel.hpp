#pragma once
// Bodies of Riemannian steps on the Stiefel manifold: over the entries of flat buffers, and of small
// matrices.

#include <cmath>
#include <cstdint>

#include "orthornn/core/shape.hpp"

namespace orthornn::pointwise {

/// to <- to_share to + from_share from.
template <class T>
struct Mix {
  T to_share, from_share;
  const T* from;
  T* to;

  constexpr void operator()(Index i) const { to[i] = to_share * to[i] + from_share * from[i]; }
};

/// to <- scale from, for column-major matrices.
template <class T>
struct AssignScaledMatrix {
  T scale;
  const T* from;
  Index from_stride;
  T* to;
  Index to_stride;

  constexpr void operator()(Index i, Index j) const {
    to[i + j * to_stride] = scale * from[i + j * from_stride];
  }
};

/// core <- I + J C / 2 and right <- the right half of J C, for C [2 M, 2 M] and J = [0 I; -I 0], column-major
/// without gaps. Entry (i, j) of core.
template <class T>
struct CayleyCore {
  const T* c;
  T* core;
  T* right;
  Index m;

  constexpr void operator()(Index i, Index j) const {
    const Index rows = 2 * m;
    const T value = i < m ? c[i + m + j * rows] : -c[i - m + j * rows];
    core[i + j * rows] = value / 2 + (i == j ? T{1} : T{0});
    if (j >= m) right[i + (j - m) * rows] = value;
  }
};

/// point <- value and gradient <- scale * d, in double; `scale` may be null for 1.
template <class T>
struct LoadStiefel {
  const T* value;
  const T* d;
  const double* scale;
  double* point;
  double* gradient;

  constexpr void operator()(Index i) const {
    point[i] = static_cast<double>(value[i]);
    gradient[i] = (scale == nullptr ? 1.0 : *scale) * static_cast<double>(d[i]);
  }
};

/// to <- from, in double.
template <class T>
struct ToDouble {
  const T* from;
  double* to;

  constexpr void operator()(Index i) const { to[i] = static_cast<double>(from[i]); }
};

/// to <- from, rounded once, unless `halted` is neither null nor 0.
template <class T>
struct FromDouble {
  const double* from;
  T* to;
  const std::int64_t* halted;

  constexpr void operator()(Index i) const {
    if (halted == nullptr || *halted == 0) to[i] = static_cast<T>(from[i]);
  }
};

/// A step of RgdAdam: new_square <- keep square + take sum, and
/// direction <- corrected_rate moment / (sqrt(new_square) root_scale + epsilon).
template <class T>
struct ScaleByMeanSquare {
  const double* moment;
  const T* square;
  const double* sum;
  double keep, take, corrected_rate, root_scale, epsilon;
  double* direction;
  double* new_square;

  constexpr void operator()(Index i) const {
    const double mean = keep * static_cast<double>(*square) + take * *sum;
    direction[i] = corrected_rate * moment[i] / (std::sqrt(mean) * root_scale + epsilon);
    if (i == 0) *new_square = mean;
  }
};

/// Whether V has linearly independent finite columns, by the eigenvalues [count] of V^T V in rising order. A
/// smallest one that is rounding of the largest counts as 0.
constexpr bool are_of_independent_columns(const double* eigenvalues, Index count) {
  const double largest = eigenvalues[count - 1], rounding = 4.5e-16 * static_cast<double>(count);
  return eigenvalues[0] > rounding * largest && largest < 1e300;
}

/// to <- E diag(1 / sigma), [M, M] column-major, where the eigenvalues are sigma^2.
struct DivideByRoots {
  const double* e;
  const double* eigenvalues;
  double* to;
  Index m;

  constexpr void operator()(Index i, Index j) const {
    to[i + j * m] = e[i + j * m] / std::sqrt(eigenvalues[j]);
  }
};

/// to <- (A - A^T)_ij / (sigma_i + sigma_j), [M, M] column-major, where the eigenvalues are sigma^2.
struct SkewOverRootSums {
  const double* a;
  const double* eigenvalues;
  double* to;
  Index m;

  constexpr void operator()(Index i, Index j) const {
    to[i + j * m] = (a[i + j * m] - a[j + i * m]) / (std::sqrt(eigenvalues[i]) + std::sqrt(eigenvalues[j]));
  }
};

}  // namespace orthornn::pointwise
