#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// A finite group, made by its name, as permutations of the points 0 to degree - 1:
///
///     name     n        elements                                              points
///     S<n>     2 .. 7   all n! permutations                                   n
///     A<n>     3 .. 7   the n!/2 even ones                                    n
///     Z<n>     2 ..     rotations i -> i + r modulo n                         n
///     D<n>     3 ..     those, and the reflections i -> r - i: 2n symmetries  n
///     Z2xS3    ..       pairs (g, h), each acting on points of its own        2 + 3
///
/// It has at most 5040 elements, with the numbers 0 to order - 1; 0 is the identity. Permutations are
/// numbered in their lexicographic order, a rotation by r as r, a reflection as n + r, a pair as g |H| + h.
class FiniteGroup {
 public:
  /// Largest number of elements.
  static constexpr Index most_elements = 5040;
  /// Number of the identity.
  static constexpr Index identity = 0;

  /// Makes the group of a name. Throws ValueError for any other name, and for a group of more than
  /// `most_elements`.
  explicit FiniteGroup(const std::string& name);

  /// Name of the group.
  const std::string& name() const { return name_; }
  /// Number of elements.
  Index order() const { return order_; }
  /// Number of points that the elements permute.
  Index degree() const { return degree_; }
  /// Number of the element a o b: first b, then a.
  Index product(Index a, Index b) const;
  /// Images of all points under an element, [degree].
  std::vector<std::int32_t> permutation(Index element) const;
  /// Names of the groups whose product it is; its own name where it is no product.
  std::vector<std::string> parts() const;
  /// An element as the numbers of elements of `parts`.
  std::vector<Index> components(Index element) const;
  /// Numbers of the swaps of two points of a group `S<n>`, ordered by the first and then by the second point.
  /// Throws ValueError for another group.
  std::vector<Index> swaps() const;
  /// Whether products of these elements are the whole group.
  bool is_generated_by(std::span<const Index> elements) const;

 private:
  struct Factor {
    char family;
    Index n;
    Index order;
    /// All elements of S<n> or A<n>, [order, n]; empty for other families.
    std::vector<std::uint8_t> permutations = {};

    Index product(Index a, Index b) const;
    /// For permutations alone.
    Index number_of(const std::uint8_t* permutation) const;
    Index image(Index element, Index point) const;
  };
  /// The group of one part of the name.
  static Factor parse_factor(const std::string& text, const std::string& name);

  std::string name_;
  std::vector<Factor> factors_;
  Index order_ = 1;
  Index degree_ = 0;
};

}  // namespace orthornn
