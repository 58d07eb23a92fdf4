#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace orthornn {

/// Type of all sizes and indices. A product T B N easily exceeds 32 bits.
using Index = std::int64_t;

/// Sizes of a tensor of rank 0 to 6 in C order (last index fastest), as HDF5 and PyTorch show them.
class Shape {
 public:
  /// Largest number of dimensions.
  static constexpr int max_rank = 6;

  /// Rank 0, the shape of one number.
  Shape() = default;
  /// A shape of these sizes. Throws ShapeError for a negative size or more than six dimensions.
  Shape(std::initializer_list<Index> sizes);
  /// A shape of the sizes in a range. Throws ShapeError for a negative size or more than six dimensions.
  template <class Iterator>
  Shape(Iterator first, Iterator last) {
    for (; first != last; ++first) append(static_cast<Index>(*first));
  }

  /// Number of dimensions.
  int rank() const { return rank_; }
  /// Size of dimension i; negative i counts from the end. The index is not checked.
  Index operator[](int i) const { return sizes_[static_cast<std::size_t>(i < 0 ? i + rank_ : i)]; }
  /// Address of the first size.
  const Index* begin() const { return sizes_.data(); }
  /// Address behind the last size.
  const Index* end() const { return sizes_.data() + rank_; }
  /// Number of elements; 1 for rank 0. Throws ShapeError when it does not fit in 63 bits.
  Index count() const;
  /// Size in bytes of `count` elements of `element_bytes` each. Throws ShapeError when it does not fit in 63
  /// bits.
  std::size_t bytes(std::size_t element_bytes) const;
  /// Adds a last dimension. Throws ShapeError for a negative size or more than six dimensions.
  void append(Index size);
  bool operator==(const Shape& other) const = default;

 private:
  std::array<Index, max_rank> sizes_{};  // 0 behind the last dimension
  int rank_ = 0;
};

/// The sizes in words, such as "[3, 4]".
std::string to_string(const Shape& shape);

/// Throws ShapeError "NAME has shape [..], expected [..]" unless the two are equal.
void check_shape(const char* name, const Shape& found, const Shape& expected);

}  // namespace orthornn
