#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "orthornn/core/tensor.hpp"

namespace orthornn::testing {

/// Live steps of each sequence of a batch, as layers and layouts take them.
inline Tensor<std::int32_t> lengths_of(std::initializer_list<std::int32_t> list) {
  Tensor<std::int32_t> lengths(Shape{static_cast<Index>(list.size())});
  std::copy(list.begin(), list.end(), lengths.begin());
  return lengths;
}

}  // namespace orthornn::testing
