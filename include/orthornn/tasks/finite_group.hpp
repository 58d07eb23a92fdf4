#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// A finite group by its name, as permutations of the points 0 .. degree - 1:
///
///     name     n        elements                                              points
///     S<n>     2 .. 7   all n! permutations                                   n
///     A<n>     3 .. 7   the n!/2 even ones                                    n
///     Z<n>     2 ..     rotations i -> i + r modulo n                         n
///     D<n>     3 ..     those, and the reflections i -> r - i: 2n symmetries  n
///     Z2xS3    ..       pairs (g, h), each acting on points of its own        2 + 3
///
/// with at most 5040 elements, which have the numbers 0 .. order - 1; 0 is the identity. Permutations are
/// numbered in their lexicographic order, r as r, a reflection as n + r, pairs as g |H| + h.
class FiniteGroup {
 public:
  static constexpr Index most_elements = 5040;
  static constexpr Index identity = 0;

  /// Throws ValueError for any other name, and for a group of more than `most_elements`.
  explicit FiniteGroup(const std::string& name);

  const std::string& name() const { return name_; }
  Index order() const { return order_; }
  Index degree() const { return degree_; }
  /// The element a o b: first b, then a.
  Index product(Index a, Index b) const;
  /// Where an element sends each point, [degree].
  std::vector<std::int32_t> permutation(Index element) const;
  /// The names of the groups that it is a product of; its own where it is none.
  std::vector<std::string> parts() const;
  /// An element as the numbers of elements of `parts`.
  std::vector<Index> components(Index element) const;
  /// The swaps of two points of S<n>, ordered by the first and then by the second. Throws ValueError for
  /// another group.
  std::vector<Index> swaps() const;
  /// Whether products of these elements are the whole group.
  bool is_generated_by(std::span<const Index> elements) const;

 private:
  struct Factor {
    char family;
    Index n;
    Index order;
    /// Of S<n> and A<n>, [order, n].
    std::vector<std::uint8_t> permutations = {};

    Index product(Index a, Index b) const;
    /// Of permutations.
    Index number_of(const std::uint8_t* permutation) const;
    Index image(Index element, Index point) const;
  };
  /// Of one part of the name.
  static Factor parse_factor(const std::string& text, const std::string& name);

  std::string name_;
  std::vector<Factor> factors_;
  Index order_ = 1;
  Index degree_ = 0;
};

}  // namespace orthornn
