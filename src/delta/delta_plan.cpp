#include "delta/delta_plan.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "cuda/delta/small_states.hpp"

namespace orthornn {
namespace {

/// Whether a GPU can have a state in the registers of a few lanes. `plain`: nothing but values and factors I
/// - beta k k^T with keys as they are given changes a state.
bool has_small_states(Device device, const DeltaSizes& sizes, bool plain) {
  return device.is_cuda() && plain && std::max(sizes.key, sizes.value) <= cuda::largest_small_state;
}

}  // namespace

template <class T>
DeltaBody body_of(const DeltaWork<T>& work) {
  if (work.options.form == DeltaForm::chunked) return DeltaBody::chunked;
  const DeltaProductInput<T>& input = work.input;
  const DeltaSizes& sizes = work.sizes;
  const bool plain = input.log_decays.empty() && input.removals.empty() && !work.options.unit_keys;
  // Kernels of small states count lanes of states, and numbers of each tensor, by int.
  const Index vectors = std::max(work.layout.rows() * sizes.factors, work.layout.size()) * sizes.heads;
  const bool fits = vectors * cuda::largest_small_state < std::numeric_limits<int>::max();
  return fits && has_small_states(work.saved.device(), sizes, plain) ? DeltaBody::small_states
                                                                     : DeltaBody::recurrent;
}

template <class T>
DeltaPlan plan_delta_product(const DeltaProblem& problem, const Execution& execution) {
  const auto& [sizes, plain, recurrent, length, batch] = problem;
  if constexpr (std::is_same_v<T, bfloat16>) {
    return {.form = recurrent ? DeltaForm::recurrent : DeltaForm::chunked,
            .precision = execution.precision,
            .rounds_vectors = false};
  }
  const bool on_gpu = execution.device.is_cuda(), is_float = std::is_same_v<T, float>;
  // A chunk of fewer factors than the CPU's usual one has too little to multiply.
  const Index tokens_of_chunk = 1 + (DeltaProductOptions::cpu_chunk - 1) / sizes.factors;
  const bool is_long = length > 1 && length >= tokens_of_chunk;
  // Within these bounds every GPU with the chunked form takes it, in every precision.
  constexpr Index largest_grid = 65535;
  const bool fits = !on_gpu || (is_float && sizes.key <= 256 && sizes.factors <= 32 &&
                                sizes.heads <= largest_grid && batch <= largest_grid);
  // Many small states are faster one factor after another (cuda/delta/small_states.cu). On an H200, K = 6, V
  // = 8, n = 4 and T = 128 took 0.40 ms forward and backward for 2048 states, and in chunks of fp32 0.48 ms
  // for 64 states and 3.0 ms for 512.
  constexpr Index many_states = 64;
  const bool small = has_small_states(execution.device, sizes, plain);
  const bool chunked = is_long && fits && !recurrent && !(small && batch * sizes.heads >= many_states) &&
                       has_chunked_form(execution.device);
  // Small states have the products of fp32 in any form, or the size of a batch would decide their precision.
  return {
      .form = chunked ? DeltaForm::chunked : DeltaForm::recurrent,
      .precision = small ? Precision::fp32 : execution.precision,
      .rounds_vectors = is_float && on_gpu && !small && chunked && execution.precision == Precision::bf16};
}

template DeltaBody body_of<float>(const DeltaWork<float>&);
template DeltaBody body_of<double>(const DeltaWork<double>&);
template DeltaBody body_of<bfloat16>(const DeltaWork<bfloat16>&);
template DeltaPlan plan_delta_product<float>(const DeltaProblem&, const Execution&);
template DeltaPlan plan_delta_product<double>(const DeltaProblem&, const Execution&);
template DeltaPlan plan_delta_product<bfloat16>(const DeltaProblem&, const Execution&);

}  // namespace orthornn
