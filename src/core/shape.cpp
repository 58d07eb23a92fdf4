#include "orthornn/core/shape.hpp"

#include <fmt/format.h>

#include "orthornn/core/error.hpp"

namespace orthornn {

Shape::Shape(std::initializer_list<Index> sizes) : Shape(sizes.begin(), sizes.end()) {}

Index Shape::count() const {
  Index product = 1;
  bool overflow = false;
  for (const Index size : *this) overflow |= __builtin_mul_overflow(product, size, &product);
  if (overflow)
    throw ShapeError(
        fmt::format("a tensor of shape {} has more than 2^63 elements; use smaller sizes", to_string(*this)));
  return product;
}

std::size_t Shape::bytes(std::size_t element_bytes) const {
  Index product = 0;
  if (__builtin_mul_overflow(count(), element_bytes, &product)) {
    throw ShapeError(
        fmt::format("a tensor of shape {} has more than 2^63 bytes; use smaller sizes", to_string(*this)));
  }
  return static_cast<std::size_t>(product);
}

void Shape::append(Index size) {
  if (size < 0) throw ShapeError(fmt::format("a size of {} was asked for; sizes are not negative", size));
  if (rank_ == max_rank) throw ShapeError(fmt::format("tensors have at most {} dimensions", max_rank));
  sizes_[static_cast<std::size_t>(rank_++)] = size;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void check_shape(const char* name, const Shape& found, const Shape& expected) {
  if (found == expected) return;
  throw ShapeError(fmt::format("{} has shape {}, expected {}", name, to_string(found), to_string(expected)));
}

}  // namespace orthornn
