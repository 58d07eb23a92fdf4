#pragma once
// Every bound that a test compares an error with, and why it is that one. Errors are relative and norm-wise
// (errors.hpp) unless it says otherwise.

#include <algorithm>
#include <cmath>
#include <limits>

#include "orthornn/core/shape.hpp"

namespace orthornn::testing::tolerance {

template <class T>
constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());

/// Two computations of one function that each do O(n) roundings an entry: the errors of the sums grow as
/// sqrt(n) where they are random, so n leaves room, and 8 is for the few operations around them.
template <class T>
double rounding(Index n) {
  return 8 * epsilon<T> * static_cast<double>(n + 1);
}

/// Central differences in double with h = 6e-6 (finite_differences.hpp): h^2 / 6 = 6e-12 times a third
/// derivative, eps / h = 4e-11 times the loss. Both factors stay below 1000 times the gradient's norm in what
/// we test, and a wrong sign or a missing term is an error of order 1.
inline constexpr double finite_difference = 4e-8;

/// <v, dv> over |v| |dv|: the part of du along u is subtracted, so what is left is its rounding. |du| may
/// exceed |dv| many times, for which 10 leaves room.
template <class T>
double along_the_vector(Index n) {
  return 10 * rounding<T>(n);
}

// Reference files.

/// Everything in double: what the files are promised to be met by.
inline constexpr double reference_double = 1e-10;

/// States and Q in float. An orthogonal recurrence keeps the norm of an error and no activation here enlarges
/// one, so the errors of T steps add up: T times the rounding of one product, and the rounding of Q (N). The
/// growth is sqrt(T) and sqrt(N) in practice. `condition` is that of S (the error of S^-1 is relative to it):
/// a few for random vectors, thousands for nearly parallel ones.
inline double reference_float(Index steps, Index n, double condition) {
  return epsilon<float> * static_cast<double>(steps + n + 8) * condition;
}

/// A gradient that jumps (relu, abs, modrelu): an argument within the states' error `e` of the kink may fall
/// on its other side. A share e of all do, each of which changes one of the terms wholly: a relative change
/// of sqrt(e). Where less than one in a hundred such arguments is expected, none is.
inline double with_kinks(double bound, Index arguments) {
  return static_cast<double>(arguments) * bound < 0.01 ? bound : std::max(bound, 4 * std::sqrt(bound));
}

/// By how much so many steps of a linear recurrence over a cluster change the norm of a state or a gradient,
/// relatively. An entry of Q has 16 bits and is off by 2^-17 of itself at most, so rotations of planes change
/// a norm by 2^-17 = 7.6e-6 a step at most; the rest is margin. A Q of 11 bits (tf32) changes norms by 4e-5 a
/// step, one of 8 bits (bfloat16) nearly trebles them in 1000 steps: measured with Init::henaff.
inline double kept_norm(Index steps) { return 1e-5 * static_cast<double>(steps); }
/// What is added where each step rounds the state to one bfloat16. Such an error is 2^-8 of an entry at most,
/// and 0.0017 of it in root mean square. Those of N independent normal entries change the norm by
/// 0.0017 sqrt(3 / N) a step, up or down, and T steps by sqrt(T) times as much: 0.4 % with N = 512 and T =
/// 1000. The bound is that 4.7 times; 4 times was measured, as the largest of 16 sequences and gradients.
inline double norm_of_rounded_states(Index steps, Index n) {
  return 0x1p-7 * std::sqrt(3 * static_cast<double>(steps) / static_cast<double>(n));
}

// Training on a GPU beside the CPU, in float, sums in other orders.

/// The same parameters: the loss is a mean over T B terms, whose errors are those of T steps of about 10, and
/// cancel.
inline constexpr double loss_elsewhere = 1e-5;
/// After up to ten updates. Adam divides by what may be small, so an entry whose gradient is all rounding
/// errors (1e-7) moves by a whole learning rate (1e-2), either way: one in a hundred of them makes a relative
/// error of 1e-4, and updates add up. A wrong update is an error of the updates' size, 1e-2 and more.
inline constexpr double trained_elsewhere = 1e-3;
/// The gradient is less smooth than the loss.
inline constexpr double gradient_trained_elsewhere = 1e-2;

// |I - Q^T Q|_1 / (N eps) in float.

/// Random reflection vectors: about 1 for every form.
inline constexpr double orthogonality_random = 3;
/// Nearly parallel ones (common vector + 0.01 noise) make S ill conditioned: 28 to 97 measured for CWY ...
inline constexpr double orthogonality_parallel_cwy = 100;
/// ... while a product of single reflections does not care: about 2.
inline constexpr double orthogonality_parallel_sequential = 4;

}  // namespace orthornn::testing::tolerance
