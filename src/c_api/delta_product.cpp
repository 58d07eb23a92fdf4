// Delta products: forward, backward, and one token more.

#include "orthornn/delta/delta_product.hpp"

#include "c_api/layout.hpp"
#include "delta/delta_plan.hpp"

namespace orthornn::c_api {
namespace {

enum class Decay { none, of_head, of_row };
enum class Form { recurrent, chunked, best };

/// Calls body(std::type_identity<T>) for the type of vectors.
template <class Body>
void with_vectors(const orthornn_delta_product* product, const Body& body) {
  if (not_null("product", product).dtype == ORTHORNN_BF16) return body(std::type_identity<bfloat16>());
  with_real(product->dtype, body);
}

/// A delta product whose settings have been checked.
struct DeltaCall {
  DeltaCall(const orthornn_device* caller, const orthornn_delta_product* product,
            const orthornn_layout* tokens)
      : device(device_of(caller)),
        layout(layout_of(tokens)),
        decay(value_of("product.decay", not_null("product", product).decay, Decay::of_row)),
        removes(flag_of("product.removals", product->removals)),
        sizes{.factors = size_of("product.factors", product->factors, 1),
              .heads = size_of("product.heads", product->heads, 0),
              .key = size_of("product.key", product->key, 0),
              .value = size_of("product.value", product->value, 0)},
        options{.scale = product->scale,
                .unit_keys = flag_of("product.unit_keys", product->unit_keys),
                .chunk = size_of("product.chunk", product->chunk, 0),
                .segments = size_of("product.segments", product->segments, 0),
                .precision = precision_of(product->precision)} {
    for (const auto& [name, shape] : {std::pair{"keys", keys()}, {"values", values()}, {"states", states()}})
      bytes_of(name, shape, sizeof(double));
    const Form form = value_of("product.form", product->form, Form::best);
    options.form = form == Form::recurrent ? DeltaForm::recurrent : DeltaForm::chunked;
    if (form != Form::best) return;
    const Index length = tokens->order == ORTHORNN_PACKED ? layout.longest() : tokens->length;
    with_vectors(product, [&]<class T>(std::type_identity<T>) { choose_form<T>(length); });
  }

  Device device;
  TokenLayout layout;
  Decay decay;
  bool removes;
  DeltaSizes sizes;
  DeltaProductOptions options;

  Shape queries() const { return {layout.rows(), sizes.heads, sizes.key}; }
  Shape keys() const { return {layout.rows(), sizes.factors, sizes.heads, sizes.key}; }
  Shape values() const { return {layout.rows(), sizes.factors, sizes.heads, sizes.value}; }
  Shape betas() const { return {layout.rows(), sizes.factors, sizes.heads}; }
  Shape outputs() const { return {layout.rows(), sizes.heads, sizes.value}; }
  Shape states() const { return {layout.size(), sizes.heads, sizes.key, sizes.value}; }
  Shape log_decays() const { return decay == Decay::of_row ? queries() : Shape{layout.rows(), sizes.heads}; }

  /// Takes the form of a layer of the library, and the precision that it has in this form.
  template <class T>
  void choose_form(Index length) {
    const DeltaPlan plan =
        plan_delta_product<T>({.sizes = sizes,
                               .plain = decay == Decay::none && !removes && !options.unit_keys,
                               .recurrent = decay == Decay::of_row || removes,
                               .length = length,
                               .batch = layout.size()},
                              Execution(device, options.precision));
    options.form = plan.form;
    options.precision = plan.precision;
  }

  /// A view of an input or its gradient that is there where `present`, and otherwise NULL.
  template <class T, class Void>
  TensorView<T> present(bool present, const char* name, Void* array, const Shape& shape) const {
    return view_if<T>(present, name, array, shape, device, "the product was said to have none");
  }

  template <class T>
  DeltaProductInput<T> input(const orthornn_delta_inputs* inputs) const {
    const orthornn_delta_inputs& given = not_null("inputs", inputs);
    using Number = const DeltaNumber<T>;
    return {
        .queries = view_of<const T>("queries", given.queries, queries(), device),
        .keys = view_of<const T>("keys", given.keys, keys(), device),
        .values = view_of<const T>("values", given.values, values(), device),
        .betas = view_of<Number>("betas", given.betas, betas(), device),
        .log_decays = present<Number>(decay != Decay::none, "log_decays", given.log_decays, log_decays()),
        .removals = present<const T>(removes, "removals", given.removals, keys()),
        .initial_states = optional_view<Number>("initial_states", given.initial_states, states(), device)};
  }
  /// The shapes alone, for sizes of memory.
  template <class T>
  DeltaProductInput<T> shapes() const {
    using Number = const DeltaNumber<T>;
    return {.queries = shape_alone<const T>(queries(), device),
            .keys = shape_alone<const T>(keys(), device),
            .values = shape_alone<const T>(values(), device),
            .betas = shape_alone<Number>(betas(), device),
            .log_decays = shape_alone<Number>(log_decays(), device, decay != Decay::none),
            .removals = shape_alone<const T>(keys(), device, removes)};
  }
  template <class T>
  DeltaProductGradients<T> gradients(const orthornn_delta_gradients* gradients) const {
    const orthornn_delta_gradients& given = not_null("gradients", gradients);
    using Number = DeltaNumber<T>;
    return {.d_outputs = view_of<const T>("d_outputs", given.d_outputs, outputs(), device),
            .d_final_states =
                optional_view<const Number>("d_final_states", given.d_final_states, states(), device),
            .d_queries = view_of<T>("d_queries", given.d_queries, queries(), device),
            .d_keys = view_of<T>("d_keys", given.d_keys, keys(), device),
            .d_values = view_of<T>("d_values", given.d_values, values(), device),
            .d_betas = view_of<Number>("d_betas", given.d_betas, betas(), device),
            .d_log_decays =
                present<Number>(decay != Decay::none, "d_log_decays", given.d_log_decays, log_decays()),
            .d_removals = present<T>(removes, "d_removals", given.d_removals, keys()),
            .d_initial_states =
                optional_view<Number>("d_initial_states", given.d_initial_states, states(), device)};
  }

  template <class T>
  SavedMemory memory() const {
    Saved tables(device);
    return memory_of(DeltaWork<T>{shapes<T>(), layout, options, tables});
  }
};

/// Writes the bytes that `choose` finds in the memory of a product.
template <class Choose>
orthornn_status delta_bytes(const orthornn_device* device, const orthornn_delta_product* product,
                            const orthornn_layout* layout, std::int64_t* bytes, const Choose& choose) {
  return guarded(device, [&] {
    const DeltaCall call(device, product, layout);
    with_vectors(product, [&]<class T>(std::type_identity<T>) {
      set_bytes(bytes, choose(call.device, call.memory<T>()));
    });
  });
}

}  // namespace
}  // namespace orthornn::c_api

using namespace orthornn;
using namespace orthornn::c_api;

orthornn_status orthornn_delta_product_saved(const orthornn_device* device,
                                             const orthornn_delta_product* product,
                                             const orthornn_layout* layout, int64_t* bytes) {
  return delta_bytes(device, product, layout, bytes,
                     [](Device, const SavedMemory& memory) { return memory.kept; });
}

orthornn_status orthornn_delta_product_forward_workspace(const orthornn_device* device,
                                                         const orthornn_delta_product* product,
                                                         const orthornn_layout* layout, int32_t keeps,
                                                         int64_t* bytes) {
  return delta_bytes(device, product, layout, bytes, [&](Device where, const SavedMemory& memory) {
    return StackOperation::forward_workspace(where, memory, flag_of("keeps", keeps));
  });
}

orthornn_status orthornn_delta_product_forward(const orthornn_device* device,
                                               const orthornn_delta_product* product,
                                               const orthornn_layout* layout,
                                               const orthornn_delta_inputs* inputs, void* outputs,
                                               void* final_states, void* saved, int64_t saved_bytes,
                                               void* workspace, int64_t workspace_bytes) {
  return guarded(device, [&] {
    const DeltaCall call(device, product, layout);
    with_vectors(product, [&]<class T>(std::type_identity<T>) {
      const Device where = call.device;
      const auto input = call.input<T>(inputs);
      const auto results = view_of<T>("outputs", outputs, call.outputs(), where);
      const auto last = optional_view<DeltaNumber<T>>("final_states", final_states, call.states(), where);
      StackOperation stack(device, call.layout, where, Pass::forward, call.memory<T>(),
                           {saved, saved_bytes, workspace, workspace_bytes});
      if (saved != nullptr) {
        delta_product_forward<T>(input, call.layout, call.options, results, last, stack.saved());
      } else {
        delta_product<T>(input, call.layout, call.options, results, last, stack.saved());
      }
    });
  });
}

orthornn_status orthornn_delta_product_backward_workspace(const orthornn_device* device,
                                                          const orthornn_delta_product* product,
                                                          const orthornn_layout* layout, int64_t* bytes) {
  return delta_bytes(device, product, layout, bytes, StackOperation::backward_workspace);
}

orthornn_status orthornn_delta_product_backward(
    const orthornn_device* device, const orthornn_delta_product* product, const orthornn_layout* layout,
    const orthornn_delta_inputs* inputs, const orthornn_delta_gradients* gradients, void* saved,
    int64_t saved_bytes, void* workspace, int64_t workspace_bytes) {
  return guarded(device, [&] {
    const DeltaCall call(device, product, layout);
    with_vectors(product, [&]<class T>(std::type_identity<T>) {
      const auto input = call.input<T>(inputs);
      const auto results = call.gradients<T>(gradients);
      StackOperation stack(device, call.layout, call.device, Pass::backward, call.memory<T>(),
                           {saved, saved_bytes, workspace, workspace_bytes});
      push_kept(DeltaWork<T>{input, call.layout, call.options, stack.saved()});
      delta_product_backward<T>(input, call.layout, call.options, results, stack.saved());
    });
  });
}

orthornn_status orthornn_delta_product_step(const orthornn_device* device,
                                            const orthornn_delta_product* product, int64_t batch,
                                            const orthornn_delta_inputs* inputs, void* states,
                                            void* outputs) {
  return guarded(device, [&] {
    const Index sequences = size_of("batch", batch, 0, std::numeric_limits<std::int32_t>::max());
    const orthornn_layout tokens{ORTHORNN_SEQUENCE_MAJOR, 0, sequences, 1, nullptr, nullptr};
    DeltaCall call(device, product, &tokens);
    call.options.form = DeltaForm::recurrent;
    with_vectors(product, [&]<class T>(std::type_identity<T>) {
      auto input = call.input<T>(inputs);
      const auto carried = view_of<DeltaNumber<T>>("states", states, call.states(), call.device);
      const auto results = view_of<T>("outputs", outputs, call.outputs(), call.device);
      if (!input.initial_states.empty() && input.initial_states.data() != carried.data())
        throw ArgumentError("initial_states must be NULL or the states of the step");
      input.initial_states = carried;
      const Operation operation(device, nullptr, 0, 0);
      Saved none(call.device);
      delta_product<T>(input, call.layout, call.options, results, carried, none);
    });
  });
}
