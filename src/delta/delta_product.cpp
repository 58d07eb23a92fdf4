#include "orthornn/delta/delta_product.hpp"

#include <fmt/format.h>

#include "core/back_end.hpp"
#include "cuda/delta/chunked_delta_product.hpp"
#include "cuda/delta/recurrent_delta_product.hpp"
#include "delta/chunked_delta_product.hpp"
#include "delta/delta_checks.hpp"
#include "delta/delta_sizes.hpp"
#include "delta/recurrent_delta_product.hpp"

namespace orthornn {
namespace {

template <class T>
void check(const DeltaProductInput<T>& input, const TokenLayout& layout, const DeltaProductOptions& options,
           const Saved& saved) {
  check_on_device("delta_product", saved,
                  {{"queries", input.queries},
                   {"keys", input.keys},
                   {"values", input.values},
                   {"betas", input.betas},
                   {"log decays", input.log_decays},
                   {"removals", input.removals},
                   {"initial states", input.initial_states}});
  const Shape keys = input.keys.shape(), values = input.values.shape();
  if (keys.rank() != 4 || values.rank() != 4)
    throw ShapeError("keys have shape " + to_string(keys) + ", values " + to_string(values) +
                     "; expected [R, n, H, K] and [R, n, H, V]");
  const Index rows = layout.rows(), factors = keys[1], heads = keys[2], key = keys[3], value = values[3];
  if (factors < 1)
    throw ShapeError("keys have shape " + to_string(keys) + "; expected one micro-step a token at least");
  check_shape("keys", keys, {rows, factors, heads, key});
  check_shape("values", values, {rows, factors, heads, value});
  check_shape("queries", input.queries.shape(), {rows, heads, key});
  check_shape("betas", input.betas.shape(), {rows, factors, heads});
  if (!input.log_decays.empty()) {
    const bool of_rows = input.log_decays.shape().rank() == 3;
    check_shape("log decays", input.log_decays.shape(),
                of_rows ? Shape{rows, heads, key} : Shape{rows, heads});
  }
  if (!input.removals.empty()) check_shape("removals", input.removals.shape(), keys);
  if (!input.initial_states.empty())
    check_shape("initial states", input.initial_states.shape(), {layout.size(), heads, key, value});

  if (options.chunk != 0) check_chunk(options.chunk, "micro-steps");
  if (options.segments < 0)
    throw ValueError(
        fmt::format("a delta product was given {} segments; expected 0 or more", options.segments));
  check_scale<DeltaNumber<T>>(options.scale);
  if (options.form == DeltaForm::chunked && (!input.removals.empty() || input.log_decays.shape().rank() == 3))
    throw ValueError(
        "removals and decays for each row of a state need the recurrent form; the chunked one was asked for");
  constexpr bool is_bfloat16 = std::is_same_v<T, bfloat16>, is_double = std::is_same_v<T, double>;
  const bool on_gpu = saved.device().is_cuda(), chunked = options.form == DeltaForm::chunked;
  if (chunked && !has_chunked_form(saved.device()))
    throw DeviceError(
        fmt::format("{} has no chunked form of a delta product: that needs a GPU of compute capability 9.0, "
                    "and a build for it{}",
                    to_string(saved.device()), is_bfloat16 ? "" : "; ask for the recurrent form"));
  if (is_bfloat16 && !(on_gpu && chunked))
    throw DeviceError(fmt::format(
        "a delta product of bfloat16 has the chunked form on a GPU alone; the {} form on {} was asked for",
        name_of(options.form), to_string(saved.device())));
  if (is_double && on_gpu && chunked)
    throw DeviceError(
        "a delta product of double has the recurrent form alone on a GPU; the chunked one was asked for");
}

template <class T>
void check_results(const DeltaProductInput<T>& input, const TokenLayout& layout, TensorView<const T> outputs,
                   TensorView<const DeltaNumber<T>> final_states, const char* output_name,
                   const char* state_name, const Saved& saved) {
  const DeltaSizes sizes(input);
  check_on_device("delta_product", saved, {{output_name, outputs}, {state_name, final_states}});
  check_shape(output_name, outputs.shape(), {layout.rows(), sizes.heads, sizes.value});
  if (!final_states.empty())
    check_shape(state_name, final_states.shape(), {layout.size(), sizes.heads, sizes.key, sizes.value});
}

/// The body of a form on the device of `saved`: `check` has refused those that do not exist.
template <class T>
void run(const DeltaProductInput<T>& input, const TokenLayout& layout, const DeltaProductOptions& options,
         TensorView<T> outputs, TensorView<DeltaNumber<T>> final_states, bool keep, Saved& saved) {
  constexpr bool is_bfloat16 = std::is_same_v<T, bfloat16>, is_double = std::is_same_v<T, double>;
  const bool chunked = options.form == DeltaForm::chunked;
  if constexpr (has_cuda_bodies) {
    if (saved.device().is_cuda()) {
      if constexpr (!is_double) {
        if (chunked)
          return cuda::chunked_delta_product<T>(input, layout, options, outputs, final_states, keep, saved);
      }
      if constexpr (!is_bfloat16)
        return cuda::recurrent_delta_product<T>(input, layout, options, outputs, final_states, keep, saved);
    }
  }
  if constexpr (!is_bfloat16) {
    if (!chunked) return recurrent_delta_product(input, layout, options, outputs, final_states, keep, saved);
    const Index kept = saved.size();
    chunked_delta_product(input, layout, options, outputs, final_states, saved);
    if (!keep) saved.pop(saved.size() - kept);
  }
}
template <class T>
void run_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                  const DeltaProductOptions& options, const DeltaProductGradients<T>& gradients,
                  Saved& saved) {
  constexpr bool is_bfloat16 = std::is_same_v<T, bfloat16>, is_double = std::is_same_v<T, double>;
  const bool chunked = options.form == DeltaForm::chunked;
  if constexpr (has_cuda_bodies) {
    if (saved.device().is_cuda()) {
      if constexpr (!is_double) {
        if (chunked) return cuda::chunked_delta_product_backward<T>(input, layout, options, gradients, saved);
      }
      if constexpr (!is_bfloat16)
        return cuda::recurrent_delta_product_backward<T>(input, layout, options, gradients, saved);
    }
  }
  if constexpr (!is_bfloat16) {
    if (chunked) {
      chunked_delta_product_backward(input, layout, options, gradients, saved);
    } else {
      recurrent_delta_product_backward(input, layout, options, gradients, saved);
    }
  }
}

}  // namespace

bool has_chunked_form(Device device) {
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) return cuda::has_chunked_kernels(device);
  }
  return !device.is_cuda();
}

template <class T>
void delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                   const DeltaProductOptions& options, TensorView<T> outputs,
                   TensorView<DeltaNumber<T>> final_states, Saved& scratch) {
  const Saved::Scope scope(scratch);
  check(input, layout, options, scratch);
  check_results<T>(input, layout, outputs, final_states, "outputs", "final states", scratch);
  clear_padding<T>(layout, {outputs});
  run(input, layout, options, outputs, final_states, false, scratch);
}

template <class T>
void delta_product_forward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, TensorView<T> outputs,
                           TensorView<DeltaNumber<T>> final_states, Saved& saved) {
  check(input, layout, options, saved);
  check_results<T>(input, layout, outputs, final_states, "outputs", "final states", saved);
  clear_padding<T>(layout, {outputs});
  run(input, layout, options, outputs, final_states, true, saved);
}

template <class T>
void delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                            const DeltaProductOptions& options, const DeltaProductGradients<T>& gradients,
                            Saved& saved) {
  check(input, layout, options, saved);
  check_results<T>(input, layout, gradients.d_outputs, gradients.d_final_states, "d_outputs",
                   "d_final_states", saved);
  check_on_device("delta_product", saved,
                  {{"d_queries", gradients.d_queries},
                   {"d_keys", gradients.d_keys},
                   {"d_values", gradients.d_values},
                   {"d_betas", gradients.d_betas},
                   {"d_log_decays", gradients.d_log_decays},
                   {"d_removals", gradients.d_removals},
                   {"d_initial_states", gradients.d_initial_states}});
  check_shape("d_queries", gradients.d_queries.shape(), input.queries.shape());
  check_shape("d_keys", gradients.d_keys.shape(), input.keys.shape());
  check_shape("d_values", gradients.d_values.shape(), input.values.shape());
  check_shape("d_betas", gradients.d_betas.shape(), input.betas.shape());
  check_shape("d_log_decays", gradients.d_log_decays.shape(), input.log_decays.shape());
  check_shape("d_removals", gradients.d_removals.shape(), input.removals.shape());
  if (!gradients.d_initial_states.empty()) {
    const DeltaSizes sizes(input);
    check_shape("d_initial_states", gradients.d_initial_states.shape(),
                {layout.size(), sizes.heads, sizes.key, sizes.value});
  }
  clear_padding<T>(layout, {gradients.d_queries, gradients.d_keys, gradients.d_values, gradients.d_removals});
  clear_padding<DeltaNumber<T>>(layout, {gradients.d_betas, gradients.d_log_decays});
  run_backward(input, layout, options, gradients, saved);
}

#define ORTHORNN_INSTANTIATE(T)                                                                         \
  template void delta_product<T>(const DeltaProductInput<T>&, const TokenLayout&,                       \
                                 const DeltaProductOptions&, TensorView<T>, TensorView<DeltaNumber<T>>, \
                                 Saved&);                                                               \
  template void delta_product_forward<T>(const DeltaProductInput<T>&, const TokenLayout&,               \
                                         const DeltaProductOptions&, TensorView<T>,                     \
                                         TensorView<DeltaNumber<T>>, Saved&);                           \
  template void delta_product_backward<T>(const DeltaProductInput<T>&, const TokenLayout&,              \
                                          const DeltaProductOptions&, const DeltaProductGradients<T>&,  \
                                          Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
ORTHORNN_INSTANTIATE(bfloat16)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
