#include "cuda/core/fault.hpp"

#include <fmt/format.h>

#include "orthornn/core/error.hpp"

namespace orthornn::cuda {

void throw_fault(FaultWord word) {
  if (word == no_fault) return;
  const auto index = static_cast<std::int64_t>(word & 0xFFFF'FFFF'FFFF);
  switch (static_cast<Fault>(word >> 48)) {
    case Fault::zero_reflection_vector:
      throw ValueError(
          fmt::format("reflection vector {} is zero; every one needs a finite length above zero", index));
    case Fault::reflection_vector_not_finite:
      throw ValueError(fmt::format(
          "reflection vector {} is not finite; every one needs a finite length above zero", index));
    case Fault::skew_parameter_not_finite:
      throw ValueError("skew_parameters hold a value that is not finite");
    case Fault::skew_parameters_too_large:
      throw ValueError(
          "skew_parameters are too large: rounding leaves no correct digit of the transform of X - X^T");
    case Fault::symbol_out_of_range:
      throw ValueError(fmt::format("input symbol at position {} is out of range", index));
    case Fault::token_out_of_range:
      throw ValueError(fmt::format("token at position {} is out of range", index));
    case Fault::length_out_of_range:
      throw ValueError(fmt::format("length of sequence {} is out of range", index));
    case Fault::class_out_of_range:
      throw ValueError(fmt::format("class at position {} is out of range", index));
    case Fault::no_target_counts:
      throw ValueError("no target counts: every class of the batch is negative, or every length 0");
    case Fault::factor_without_inverse:
      throw ValueError(fmt::format(
          "factor {}, counted over rows and heads, has no inverse: 1 + q^T k is 0 but for rounding", index));
    case Fault::step_without_position:
      throw ValueError(
          fmt::format("sequence {} has more steps than the positions layer has vectors, or a state that is "
                      "no number of steps; use shorter sequences, or train with as many positions",
                      index));
    case Fault::dependent_columns:
      throw ValueError(dependent_columns_message);
  }
  throw DeviceError(fmt::format("the GPU reported an unknown fault {:#x}", word));
}

}  // namespace orthornn::cuda
