#include "orthornn/delta/exact_factors.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {
namespace {

/// Fills with zeros. Throws as the functions for fewer factors than `needed`.
template <class T>
void clear_factors(const char* what, Index size, Index needed, TensorView<T> keys, TensorView<T> betas) {
  const Index count = betas.size();
  check_shape("betas", betas.shape(), {count});
  check_shape("keys", keys.shape(), {count, size});
  if (count < needed) {
    throw ValueError(fmt::format("{} needs {} factors; expected as many, found {}", what, needed, count));
  }
  std::fill(keys.begin(), keys.end(), T{0});
  std::fill(betas.begin(), betas.end(), T{0});
}

template <class T>
void set_plane_reflection(double angle_of_key, TensorView<T> key, T& beta) {
  key(0) = static_cast<T>(std::cos(angle_of_key));
  key(1) = static_cast<T>(std::sin(angle_of_key));
  beta = T{2};
}

}  // namespace

std::vector<std::array<Index, 2>> swaps_of(std::span<const std::int32_t> permutation) {
  const auto size = static_cast<Index>(permutation.size());
  if (!is_permutation({permutation.data(), Shape{size}}))
    throw ValueError(fmt::format("expected a permutation of 0 .. {}, found other numbers", size - 1));
  // Where the swaps so far send each point. A swap of two images sets one more of them right.
  std::vector<Index> images(permutation.size());
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<Index>(i);
  std::vector<std::array<Index, 2>> swaps;
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (images[i] == permutation[i]) continue;
    swaps.push_back({images[i], permutation[i]});
    *std::ranges::find(images, permutation[i]) = images[i];
    images[i] = permutation[i];
  }
  return swaps;
}

template <class T>
void permutation_factors(std::span<const std::int32_t> permutation, TensorView<T> keys, TensorView<T> betas) {
  const std::vector<std::array<Index, 2>> swaps = swaps_of(permutation);
  clear_factors("this permutation", static_cast<Index>(permutation.size()), std::ssize(swaps), keys, betas);
  for (Index j = 0; j < std::ssize(swaps); ++j) {
    const auto [first, second] = swaps[static_cast<std::size_t>(j)];
    keys(j, first) = T{1};
    keys(j, second) = T{-1};
    betas(j) = T{1};
  }
}

template <class T>
void rotation_factors(double angle, TensorView<T> keys, TensorView<T> betas) {
  clear_factors("a rotation", 2, 2, keys, betas);
  set_plane_reflection(0, keys[0], betas(0));
  set_plane_reflection(angle / 2, keys[1], betas(1));
}

template <class T>
void reflection_factors(double angle, TensorView<T> keys, TensorView<T> betas) {
  clear_factors("a reflection", 2, 1, keys, betas);
  set_plane_reflection(angle + std::numbers::pi / 2, keys[0], betas(0));
}

/// Each reflection k along A e_i - e_i sends A e_i to e_i, and keeps what A keeps: e_j with j < i, and every
/// vector that A does not move. So it takes one off the rank of I - A.
std::vector<std::vector<double>> reflection_normals(TensorView<const double> matrix) {
  const Index size = matrix.shape().rank() == 2 ? matrix.shape()[0] : 0;
  check_shape("an orthogonal matrix", matrix.shape(), {size, size});
  Eigen::MatrixXd left(size, size);  // A less the reflections that were found
  for (Index i = 0; i < size; ++i) {
    for (Index j = 0; j < size; ++j) left(i, j) = matrix(i, j);
  }
  const double error =
      size == 0 ? 0 : (left.transpose() * left - Eigen::MatrixXd::Identity(size, size)).cwiseAbs().maxCoeff();
  if (!(error <= 1e-6))
    throw ValueError(fmt::format("expected an orthogonal matrix; A'A is wrong by {:.1g}", error));
  std::vector<std::vector<double>> found;
  for (Index i = 0; i < size; ++i) {
    const Eigen::VectorXd moved = left.col(i) - Eigen::VectorXd::Unit(size, i);
    // Entries of a product of K reflections are wrong by about 1e-16 K.
    if (moved.norm() < 1e-9) continue;
    const Eigen::VectorXd k = moved.normalized();
    left -= 2 * k * (k.transpose() * left).eval();
    found.emplace_back(k.begin(), k.end());
  }
  std::ranges::reverse(found);  // A = H(first found) ... H(last found), whose last factor acts first
  return found;
}

template <class T>
void orthogonal_factors(TensorView<const double> matrix, TensorView<T> keys, TensorView<T> betas) {
  const std::vector<std::vector<double>> reflections = reflection_normals(matrix);
  clear_factors("this orthogonal matrix", matrix.shape()[0], std::ssize(reflections), keys, betas);
  for (Index j = 0; j < std::ssize(reflections); ++j) {
    const std::vector<double>& k = reflections[static_cast<std::size_t>(j)];
    std::transform(k.begin(), k.end(), keys[j].begin(), [](double x) { return static_cast<T>(x); });
    betas(j) = T{2};
  }
}

template void permutation_factors<float>(std::span<const std::int32_t>, TensorView<float>, TensorView<float>);
template void permutation_factors<double>(std::span<const std::int32_t>, TensorView<double>,
                                          TensorView<double>);
template void orthogonal_factors<float>(TensorView<const double>, TensorView<float>, TensorView<float>);
template void orthogonal_factors<double>(TensorView<const double>, TensorView<double>, TensorView<double>);
template void rotation_factors<float>(double, TensorView<float>, TensorView<float>);
template void rotation_factors<double>(double, TensorView<double>, TensorView<double>);
template void reflection_factors<float>(double, TensorView<float>, TensorView<float>);
template void reflection_factors<double>(double, TensorView<double>, TensorView<double>);

}  // namespace orthornn
