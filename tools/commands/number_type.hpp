#pragma once

#include "orthornn/core/fields.hpp"

namespace orthornn::program {

/// What a benchmark computes in, where a function has floats and doubles on every device.
enum class NumberType { fp32, fp64 };

}  // namespace orthornn::program

namespace orthornn {

template <>
struct Names<program::NumberType> {
  using enum program::NumberType;
  static constexpr Choice<program::NumberType> list[] = {{"fp32", fp32}, {"fp64", fp64}};
};

}  // namespace orthornn
