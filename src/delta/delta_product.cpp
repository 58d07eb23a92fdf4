#include "orthornn/delta/delta_product.hpp"

#include "delta/chunked_delta_product.hpp"
#include "delta/delta_checks.hpp"
#include "delta/delta_sizes.hpp"
#include "delta/recurrent_delta_product.hpp"

namespace orthornn {
namespace {

template <class T>
void check(const DeltaProductInput<T>& input, const TokenLayout& layout, const DeltaProductOptions& options,
           const Saved& saved) {
  check_on_cpu("delta_product", {input.queries.device(), input.keys.device(), input.values.device(),
                                 input.betas.device(), input.log_decays.device(), input.removals.device(),
                                 input.initial_states.device(), saved.device()});
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

  check_chunk(options.chunk, "micro-steps");
  check_scale<T>(options.scale);
  if (options.form == DeltaForm::chunked && (!input.removals.empty() || input.log_decays.shape().rank() == 3))
    throw ValueError(
        "removals and decays for each row of a state need the recurrent form; the chunked one was asked for");
}

template <class T>
void check_results(const DeltaProductInput<T>& input, const TokenLayout& layout, TensorView<const T> outputs,
                   TensorView<const T> final_states, const char* output_name, const char* state_name) {
  const DeltaSizes sizes(input);
  check_on_cpu("delta_product", {outputs.device(), final_states.device()});
  check_shape(output_name, outputs.shape(), {layout.rows(), sizes.heads, sizes.value});
  if (!final_states.empty())
    check_shape(state_name, final_states.shape(), {layout.size(), sizes.heads, sizes.key, sizes.value});
}

}  // namespace

template <class T>
void delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                   const DeltaProductOptions& options, TensorView<T> outputs, TensorView<T> final_states,
                   Saved& scratch) {
  const Saved::Scope scope(scratch);
  if (options.form == DeltaForm::chunked) {
    delta_product_forward(input, layout, options, outputs, final_states, scratch);
    return;
  }
  check(input, layout, options, scratch);
  check_results<T>(input, layout, outputs, final_states, "outputs", "final states");
  clear_padding<T>(layout, {outputs});
  recurrent_delta_product(input, layout, options, outputs, final_states, false, scratch);
}

template <class T>
void delta_product_forward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, TensorView<T> outputs,
                           TensorView<T> final_states, Saved& saved) {
  check(input, layout, options, saved);
  check_results<T>(input, layout, outputs, final_states, "outputs", "final states");
  clear_padding<T>(layout, {outputs});
  if (options.form == DeltaForm::chunked) {
    chunked_delta_product(input, layout, options, outputs, final_states, saved);
  } else {
    recurrent_delta_product(input, layout, options, outputs, final_states, true, saved);
  }
}

template <class T>
void delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                            const DeltaProductOptions& options, const DeltaProductGradients<T>& gradients,
                            Saved& saved) {
  check(input, layout, options, saved);
  check_results<T>(input, layout, gradients.d_outputs, gradients.d_final_states, "d_outputs",
                   "d_final_states");
  check_on_cpu("delta_product",
               {gradients.d_queries.device(), gradients.d_keys.device(), gradients.d_values.device(),
                gradients.d_betas.device(), gradients.d_log_decays.device(), gradients.d_removals.device(),
                gradients.d_initial_states.device()});
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
  clear_padding<T>(layout, {gradients.d_queries, gradients.d_keys, gradients.d_values, gradients.d_betas,
                            gradients.d_log_decays, gradients.d_removals});
  if (options.form == DeltaForm::chunked) {
    chunked_delta_product_backward(input, layout, options, gradients, saved);
  } else {
    recurrent_delta_product_backward(input, layout, options, gradients, saved);
  }
}

#define ORTHORNN_INSTANTIATE(T)                                                                             \
  template void delta_product<T>(const DeltaProductInput<T>&, const TokenLayout&,                           \
                                 const DeltaProductOptions&, TensorView<T>, TensorView<T>, Saved&);         \
  template void delta_product_forward<T>(const DeltaProductInput<T>&, const TokenLayout&,                   \
                                         const DeltaProductOptions&, TensorView<T>, TensorView<T>, Saved&); \
  template void delta_product_backward<T>(const DeltaProductInput<T>&, const TokenLayout&,                  \
                                          const DeltaProductOptions&, const DeltaProductGradients<T>&,      \
                                          Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
