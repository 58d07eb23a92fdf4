#include "orthornn/delta/delta_product.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "core/back_end.hpp"
#include "cuda/delta/chunked_delta_product.hpp"
#include "cuda/delta/recurrent_delta_product.hpp"
#include "cuda/delta/small_states.hpp"
#include "delta/chunked_delta_product.hpp"
#include "delta/delta_checks.hpp"
#include "delta/delta_plan.hpp"
#include "delta/recurrent_delta_product.hpp"

namespace orthornn {
namespace {

template <class T>
constexpr bool is_bfloat16 = std::is_same_v<T, bfloat16>;
template <class T>
constexpr bool is_double = std::is_same_v<T, double>;

template <class T>
void check_tensors_of(const DeltaWork<T>& work) {
  const DeltaProductInput<T>& input = work.input;
  const Shape keys = input.keys.shape(), values = input.values.shape();
  if (keys.rank() != 4 || values.rank() != 4)
    throw ShapeError("keys have shape " + to_string(keys) + ", values " + to_string(values) +
                     "; expected [R, n, H, K] and [R, n, H, V]");
  const auto [factors, heads, key, value] = work.sizes;
  const Index rows = work.layout.rows();
  if (factors < 1)
    throw ShapeError("keys have shape " + to_string(keys) + "; expected one factor a token at least");
  check_shape("keys", keys, {rows, factors, heads, key});
  const bool decays_of_rows = input.log_decays.shape().rank() == 3;
  const Shape log_decays = decays_of_rows ? Shape{rows, heads, key} : Shape{rows, heads};
  check_tensors("delta_product", work.saved,
                {{"queries", input.queries, {rows, heads, key}},
                 {"keys", input.keys, keys},
                 {"values", input.values, {rows, factors, heads, value}},
                 {"betas", input.betas, {rows, factors, heads}},
                 {"log decays", input.log_decays, log_decays, if_any},
                 {"removals", input.removals, keys, if_any},
                 {"initial states", input.initial_states, {work.layout.size(), heads, key, value}, if_any}});
}

/// Throws unless there is such a form for these tensors on their device.
template <class T>
void check_form(const DeltaWork<T>& work) {
  const Device device = work.saved.device();
  const bool chunked = work.options.form == DeltaForm::chunked;
  if (chunked && (!work.input.removals.empty() || work.input.log_decays.shape().rank() == 3))
    throw ValueError(
        "removals and decays for each row of a state need the recurrent form; the chunked one was asked for");
  if (chunked && !has_chunked_form(device))
    throw DeviceError(
        fmt::format("{} has no chunked form of a delta product: that needs a GPU of compute capability 9.0, "
                    "and a build for it{}",
                    to_string(device), is_bfloat16<T> ? "" : "; ask for the recurrent form"));
  if (is_bfloat16<T> && !(device.is_cuda() && chunked))
    throw DeviceError(fmt::format(
        "a delta product of bfloat16 has the chunked form on a GPU alone; the {} form on {} was asked for",
        name_of(work.options.form), to_string(device)));
  if (is_double<T> && device.is_cuda() && chunked)
    throw DeviceError(
        "a delta product of double has the recurrent form alone on a GPU; the chunked one was asked for");
}

template <class T>
void check(const DeltaWork<T>& work) {
  check_tensors_of(work);
  if (work.options.chunk != 0) check_chunk(work.options.chunk, "factors");
  if (work.options.segments < 0)
    throw ValueError(
        fmt::format("a delta product was given {} segments; expected 0 or more", work.options.segments));
  check_scale<DeltaNumber<T>>(work.options.scale);
  check_form(work);
}

template <class T>
void check_results(const DeltaWork<T>& work, const DeltaResults<T>& results) {
  const auto [factors, heads, key, value] = work.sizes;
  check_tensors("delta_product", work.saved,
                {{"outputs", results.outputs, {work.layout.rows(), heads, value}},
                 {"final states", results.final_states, {work.layout.size(), heads, key, value}, if_any}});
}

template <class T>
void check_gradients(const DeltaWork<T>& work, const DeltaProductGradients<T>& g) {
  const auto [factors, heads, key, value] = work.sizes;
  const Shape states{work.layout.size(), heads, key, value};
  check_tensors("delta_product", work.saved,
                {{"d_outputs", g.d_outputs, {work.layout.rows(), heads, value}},
                 {"d_final_states", g.d_final_states, states, if_any},
                 {"d_queries", g.d_queries, work.input.queries.shape()},
                 {"d_keys", g.d_keys, work.input.keys.shape()},
                 {"d_values", g.d_values, work.input.values.shape()},
                 {"d_betas", g.d_betas, work.input.betas.shape()},
                 {"d_log_decays", g.d_log_decays, work.input.log_decays.shape()},
                 {"d_removals", g.d_removals, work.input.removals.shape()},
                 {"d_initial_states", g.d_initial_states, states, if_any}});
}

/// Runs the body of the form on the device. `check` has refused those that do not exist.
template <class T>
void run(const DeltaWork<T>& work, const DeltaResults<T>& results) {
  check(work);
  check_results(work, results);
  clear_padding<T>(work.layout, {results.outputs});
  const DeltaBody body = body_of(work);
  if constexpr (has_cuda_bodies) {
    if (work.saved.device().is_cuda()) {
      if constexpr (!is_double<T>) {
        if (body == DeltaBody::chunked) return cuda::chunked_delta_product<T>(work, results);
      }
      if constexpr (!is_bfloat16<T>) {
        return body == DeltaBody::small_states ? cuda::small_states<T>(work, results)
                                               : cuda::recurrent_delta_product<T>(work, results);
      }
    }
  }
  if constexpr (!is_bfloat16<T>) {
    body == DeltaBody::chunked ? chunked_delta_product(work, results)
                               : recurrent_delta_product(work, results);
  }
}

template <class T>
void run_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients) {
  const DeltaBody body = body_of(work);
  if constexpr (has_cuda_bodies) {
    if (work.saved.device().is_cuda()) {
      if constexpr (!is_double<T>) {
        if (body == DeltaBody::chunked) return cuda::chunked_delta_product_backward<T>(work, gradients);
      }
      if constexpr (!is_bfloat16<T>) {
        return body == DeltaBody::small_states ? cuda::small_states_backward<T>(work, gradients)
                                               : cuda::recurrent_delta_product_backward<T>(work, gradients);
      }
    }
  }
  if constexpr (!is_bfloat16<T>) {
    body == DeltaBody::chunked ? chunked_delta_product_backward(work, gradients)
                               : recurrent_delta_product_backward(work, gradients);
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
  run<T>({input, layout, options, scratch}, {outputs, final_states, false});
}

template <class T>
void delta_product_forward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, TensorView<T> outputs,
                           TensorView<DeltaNumber<T>> final_states, Saved& saved) {
  push_all_or_nothing(saved, [&] { run<T>({input, layout, options, saved}, {outputs, final_states, true}); });
}

template <class T>
void delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                            const DeltaProductOptions& options, const DeltaProductGradients<T>& gradients,
                            Saved& saved) {
  const DeltaWork<T> work{input, layout, options, saved};
  check(work);
  check_gradients(work, gradients);
  clear_padding<T>(layout, {gradients.d_queries, gradients.d_keys, gradients.d_values, gradients.d_removals});
  clear_padding<DeltaNumber<T>>(layout, {gradients.d_betas, gradients.d_log_decays});
  run_backward(work, gradients);
}

namespace {

/// `check_form` has refused the forms that do not exist.
[[noreturn]] void throw_no_form() {
  throw std::logic_error("a delta product of a form that does not exist was not refused");
}

/// The sizes for a body of a GPU.
template <class T>
SavedMemory memory_on_gpu(const DeltaWork<T>& work, DeltaBody body) {
  if constexpr (!is_double<T>) {
    if (body == DeltaBody::chunked) return cuda::memory_of_chunks(work);
  }
  if constexpr (!is_bfloat16<T>) {
    return body == DeltaBody::small_states ? cuda::memory_of_small_states(work)
                                           : cuda::memory_of_recurrence(work);
  }
  throw_no_form();
}
template <class T>
void push_kept_on_gpu(const DeltaWork<T>& work, DeltaBody body) {
  if constexpr (!is_double<T>) {
    if (body == DeltaBody::chunked) return cuda::push_kept_chunks(work);
  }
  if constexpr (!is_bfloat16<T>)
    body == DeltaBody::small_states ? cuda::push_kept_small_states(work) : cuda::push_kept_borders(work);
}

}  // namespace

template <class T>
SavedMemory memory_of(const DeltaWork<T>& work) {
  check_form(work);
  if constexpr (has_cuda_bodies) {
    const Device device = work.saved.device();
    if (device.is_cuda()) return with_layout_table(memory_on_gpu(work, body_of(work)), work.layout, device);
  }
  if constexpr (!is_bfloat16<T>) {
    return work.options.form == DeltaForm::chunked ? memory_of_chunks(work) : memory_of_recurrence(work);
  }
  throw_no_form();
}

template <class T>
void push_kept(const DeltaWork<T>& work) {
  check_form(work);
  if constexpr (has_cuda_bodies) {
    if (work.saved.device().is_cuda()) return push_kept_on_gpu(work, body_of(work));
  }
  if constexpr (!is_bfloat16<T>)
    work.options.form == DeltaForm::chunked ? push_kept_chunks(work) : push_kept_states(work);
}

template SavedMemory memory_of<float>(const DeltaWork<float>&);
template SavedMemory memory_of<double>(const DeltaWork<double>&);
template SavedMemory memory_of<bfloat16>(const DeltaWork<bfloat16>&);
template void push_kept<float>(const DeltaWork<float>&);
template void push_kept<double>(const DeltaWork<double>&);
template void push_kept<bfloat16>(const DeltaWork<bfloat16>&);

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
