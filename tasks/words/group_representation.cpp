#include "orthornn/tasks/group_representation.hpp"

#include <fmt/format.h>

#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/delta/exact_factors.hpp"

namespace orthornn {
namespace {

constexpr double pi = std::numbers::pi;

using Matrix = Eigen::MatrixXd;
/// Of each element.
using Matrices = std::vector<Matrix>;

Matrices permutation_matrices(const FiniteGroup& group) {
  Matrices matrices;
  for (Index element = 0; element < group.order(); ++element) {
    Matrix& matrix = matrices.emplace_back(Matrix::Zero(group.degree(), group.degree()));
    const std::vector<std::int32_t> images = group.permutation(element);
    for (Index point = 0; point < group.degree(); ++point)
      matrix(images[static_cast<std::size_t>(point)], point) = 1;
  }
  return matrices;
}

/// i -> r + i turns a plane by r angles; i -> r - i reflects it on the line at half as many.
Matrices plane_matrices(const FiniteGroup& group) {
  const Index n = group.degree();
  if (n > most_places) {
    throw ValueError(
        fmt::format("{}{} has {} places; expected at most {}, between which fp32 tells for 100,000 steps",
                    group.name()[0], n, n, most_places));
  }
  Matrices matrices;
  for (Index element = 0; element < group.order(); ++element) {
    const double angle = 2 * pi * static_cast<double>(element % n) / static_cast<double>(n);
    const double sign = element < n ? 1 : -1;
    matrices.push_back(
        Matrix{{std::cos(angle), -sign * std::sin(angle)}, {std::sin(angle), sign * std::cos(angle)}});
  }
  return matrices;
}

/// The four diagonals of a cube are the points; -I changes no diagonal, and makes reflections rotations.
Matrices cube_rotations(const FiniteGroup& group) {
  const Eigen::Vector3d diagonals[] = {{1, 1, 1}, {1, -1, -1}, {-1, 1, -1}, {-1, -1, 1}};
  Matrices matrices;
  for (Index element = 0; element < group.order(); ++element) {
    Eigen::Matrix3d matrix = Eigen::Matrix3d::Zero();
    const std::vector<std::int32_t> images = group.permutation(element);
    for (std::size_t i = 0; i < 4; ++i) matrix += diagonals[images[i]] * diagonals[i].transpose() / 4;
    matrices.emplace_back(matrix.determinant() * matrix);
  }
  return matrices;
}

Index order_of(const FiniteGroup& group, Index element) {
  Index order = 1;
  for (Index power = element; power != FiniteGroup::identity; ++order) power = group.product(element, power);
  return order;
}

/// A5 is all that follows from a^5 = b^2 = (a b)^3 = 1. A turn by 72 degrees and one by 180 degrees do that,
/// if the cosine between their axes is 1 / (2 sin 36): the half of the angle of their product then has the
/// cosine -1/2.
Matrices icosahedron_rotations(const FiniteGroup& group) {
  Index a = 0, b = 0;
  while (order_of(group, a) != 5) ++a;
  while (order_of(group, b) != 2 || order_of(group, group.product(a, b)) != 3) ++b;
  const double cosine = 1 / (2 * std::sin(pi / 5));
  const Eigen::Vector3d axis(std::sqrt(1 - cosine * cosine), 0, cosine);
  const std::pair<Index, Eigen::Matrix3d> generators[] = {
      {a, Eigen::AngleAxisd(2 * pi / 5, Eigen::Vector3d::UnitZ()).matrix()},
      {b, Eigen::AngleAxisd(pi, axis).matrix()}};
  Matrices matrices(static_cast<std::size_t>(group.order()));
  std::vector<Index> reached = {FiniteGroup::identity};
  matrices[FiniteGroup::identity] = Matrix::Identity(3, 3);
  for (std::size_t next = 0; next < reached.size(); ++next) {
    for (const auto& [generator, rotation] : generators) {
      const Index product = group.product(generator, reached[next]);
      Matrix& matrix = matrices[static_cast<std::size_t>(product)];
      if (matrix.size() > 0) continue;
      matrix = rotation * matrices[static_cast<std::size_t>(reached[next])];
      reached.push_back(product);
    }
  }
  return matrices;
}

/// Of a group that is no product.
Matrices matrices_of(const FiniteGroup& group, const std::vector<Index>& elements) {
  const char family = group.name()[0];
  if (group.name() == "Z2") return {Matrix{{1.0}}, Matrix{{-1.0}}};
  if (family == 'Z' || family == 'D') return plane_matrices(group);
  Matrices of_points = permutation_matrices(group);
  if (group.name() != "S4" && group.name() != "A5") return of_points;
  Matrices rotations = group.name() == "S4" ? cube_rotations(group) : icosahedron_rotations(group);
  const auto most_reflections = [&](const Matrices& matrices) {
    std::size_t most = 0;
    for (const Index element : elements) {
      const Matrix transposed = matrices[static_cast<std::size_t>(element)].transpose();  // rows in memory
      const TensorView<const double> view(transposed.data(), {transposed.rows(), transposed.rows()});
      most = std::max(most, reflection_normals(view).size());
    }
    return most;
  };
  return most_reflections(rotations) < most_reflections(of_points) ? rotations : of_points;
}

}  // namespace

Tensor<double> orthogonal_representation(const FiniteGroup& group, std::span<const Index> elements) {
  std::vector<Matrices> blocks;
  Index size = 0;
  const std::vector<std::string> parts = group.parts();
  for (std::size_t part = 0; part < parts.size(); ++part) {
    std::vector<Index> components;
    for (const Index element : elements) components.push_back(group.components(element)[part]);
    blocks.push_back(matrices_of(FiniteGroup(parts[part]), components));
    size += blocks.back().front().rows();
  }
  Tensor<double> matrices(Shape{group.order(), size, size});
  for (Index element = 0; element < group.order(); ++element) {
    const std::vector<Index> components = group.components(element);
    Index first = 0;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const Matrix& block = blocks[part][static_cast<std::size_t>(components[part])];
      for (Index i = 0; i < block.rows(); ++i) {
        for (Index j = 0; j < block.cols(); ++j) matrices(element, first + i, first + j) = block(i, j);
      }
      first += block.rows();
    }
  }
  return matrices;
}

}  // namespace orthornn
