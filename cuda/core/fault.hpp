#pragma once

#include <cstdint>

namespace orthornn::cuda {

/// Faults in the data that a kernel detects. A kernel cannot throw: the host throws the fault when it next
/// synchronizes, with the exception of the CPU body.
enum class Fault : std::uint64_t {
  zero_reflection_vector,
  reflection_vector_not_finite,
  skew_parameter_not_finite,
  skew_parameters_too_large,
  dependent_columns,
  symbol_out_of_range,
  token_out_of_range,
  length_out_of_range,
  class_out_of_range,
  no_target_counts,
  factor_without_inverse,
  step_without_position,
};

/// The fault with the lowest number and index so far, as number << 48 | index. All bits set mean no fault.
using FaultWord = unsigned long long;
inline constexpr FaultWord no_fault = ~FaultWord{0};

constexpr FaultWord fault_word(Fault fault, std::int64_t index) {
  return static_cast<FaultWord>(fault) << 48 | (static_cast<FaultWord>(index) & 0xFFFF'FFFF'FFFF);
}

/// What Fault::dependent_columns says, on a GPU and on the CPU.
inline constexpr const char* dependent_columns_message =
    "proxy_matrix is not finite, or its columns are not linearly independent; expected singular values above "
    "2e-8 sqrt(M) times the largest; train with a smaller learning rate, or draw the matrix again";

/// Throws ValueError for anything but `no_fault`.
void throw_fault(FaultWord word);

}  // namespace orthornn::cuda
