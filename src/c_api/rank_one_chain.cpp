// Chains of general rank-one factors.

#include "orthornn/delta/rank_one_chain.hpp"

#include "c_api/layout.hpp"

namespace orthornn::c_api {
namespace {

/// A chain whose settings have been checked.
struct ChainCall {
  ChainCall(const orthornn_device* caller, const orthornn_rank_one_chain* chain, TokenLayout rows_of_factors)
      : device(device_of(caller)),
        layout(std::move(rows_of_factors)),
        heads(size_of("chain.heads", not_null("chain", chain).heads, 0)),
        size(size_of("chain.size", chain->size, 0)),
        columns(size_of("chain.columns", chain->columns, 0)) {
    check_reserved("chain.reserved", chain->reserved);
    if (size_of("chain.chunk", chain->chunk, 0) > 0) options.chunk = chain->chunk;
    for (const auto& [name, shape] :
         {std::pair{"left", vectors()}, {"outputs", outputs()}, {"states", states()}})
      bytes_of(name, shape, sizeof(double));
  }

  Device device;
  TokenLayout layout;
  Index heads, size, columns;
  RankOneChainOptions options = {};

  Shape vectors() const { return {layout.rows(), heads, size}; }
  Shape scales() const { return {layout.rows(), heads}; }
  Shape outputs() const { return {layout.rows(), heads, columns}; }
  Shape states() const { return {layout.size(), heads, size, columns}; }

  template <class T>
  RankOneChainInput<T> input(const orthornn_chain_inputs* inputs) const {
    const orthornn_chain_inputs& given = not_null("inputs", inputs);
    return {.left = view_of<const T>("left", given.left, vectors(), device),
            .right = view_of<const T>("right", given.right, vectors(), device),
            .left_scales = optional_view<const T>("left_scales", given.left_scales, scales(), device),
            .right_scales = optional_view<const T>("right_scales", given.right_scales, scales(), device),
            .initial_states = view_of<const T>("initial_states", given.initial_states, states(), device)};
  }
  /// The gradient of scales, which the caller has where `present`: they may have no elements.
  template <class T>
  TensorView<T> scale_gradient(const char* name, void* array, bool present) const {
    return view_if<T>(present, name, array, scales(), device, "the scales are NULL");
  }
  template <class T>
  RankOneChainGradients<T> gradients(const orthornn_chain_gradients* gradients,
                                     const orthornn_chain_inputs& inputs) const {
    const orthornn_chain_gradients& given = not_null("gradients", gradients);
    return {
        .d_outputs = view_of<const T>("d_outputs", given.d_outputs, outputs(), device),
        .d_final_states = optional_view<const T>("d_final_states", given.d_final_states, states(), device),
        .d_left = view_of<T>("d_left", given.d_left, vectors(), device),
        .d_right = view_of<T>("d_right", given.d_right, vectors(), device),
        .d_left_scales =
            scale_gradient<T>("d_left_scales", given.d_left_scales, inputs.left_scales != nullptr),
        .d_right_scales =
            scale_gradient<T>("d_right_scales", given.d_right_scales, inputs.right_scales != nullptr),
        .d_initial_states = optional_view<T>("d_initial_states", given.d_initial_states, states(), device)};
  }

  template <class T>
  SavedMemory memory() const {
    Saved tables(device);
    const RankOneChainInput<T> shapes{.left = shape_alone<const T>(vectors(), device),
                                      .right = shape_alone<const T>(vectors(), device),
                                      .initial_states = shape_alone<const T>(states(), device)};
    return memory_of(ChainWork<T>{shapes, layout, options, tables});
  }
};

/// Writes the bytes that `choose` finds in the memory of a chain.
template <class Choose>
orthornn_status chain_bytes(const orthornn_device* device, const orthornn_rank_one_chain* chain,
                            const orthornn_layout* layout, std::int64_t* bytes, const Choose& choose) {
  return guarded(device, [&] {
    const ChainCall call(device, chain, layout_of(layout));
    with_real(chain->dtype, [&]<class T>(std::type_identity<T>) {
      set_bytes(bytes, choose(call.device, call.memory<T>()));
    });
  });
}

}  // namespace
}  // namespace orthornn::c_api

using namespace orthornn;
using namespace orthornn::c_api;

orthornn_status orthornn_rank_one_chain_saved(const orthornn_device* device,
                                              const orthornn_rank_one_chain* chain,
                                              const orthornn_layout* layout, int64_t* bytes) {
  return chain_bytes(device, chain, layout, bytes,
                     [](Device, const SavedMemory& memory) { return memory.kept; });
}

orthornn_status orthornn_rank_one_chain_forward_workspace(const orthornn_device* device,
                                                          const orthornn_rank_one_chain* chain,
                                                          const orthornn_layout* layout, int32_t keeps,
                                                          int64_t* bytes) {
  return chain_bytes(device, chain, layout, bytes, [&](Device where, const SavedMemory& memory) {
    return StackOperation::forward_workspace(where, memory, flag_of("keeps", keeps));
  });
}

orthornn_status orthornn_rank_one_chain_forward(const orthornn_device* device,
                                                const orthornn_rank_one_chain* chain,
                                                const orthornn_layout* layout,
                                                const orthornn_chain_inputs* inputs, void* outputs,
                                                void* final_states, void* saved, int64_t saved_bytes,
                                                void* workspace, int64_t workspace_bytes) {
  return guarded(device, [&] {
    const ChainCall call(device, chain, layout_of(layout));
    with_real(chain->dtype, [&]<class T>(std::type_identity<T>) {
      const Device where = call.device;
      const auto input = call.input<T>(inputs);
      const auto results = view_of<T>("outputs", outputs, call.outputs(), where);
      const auto last = optional_view<T>("final_states", final_states, call.states(), where);
      StackOperation stack(device, call.layout, where, Pass::forward, call.memory<T>(),
                           {saved, saved_bytes, workspace, workspace_bytes});
      const auto run = saved != nullptr ? rank_one_chain_forward<T> : rank_one_chain<T>;
      run(input, call.layout, call.options, results, last, stack.saved());
    });
  });
}

orthornn_status orthornn_rank_one_chain_backward_workspace(const orthornn_device* device,
                                                           const orthornn_rank_one_chain* chain,
                                                           const orthornn_layout* layout, int64_t* bytes) {
  return chain_bytes(device, chain, layout, bytes, StackOperation::backward_workspace);
}

orthornn_status orthornn_rank_one_chain_backward(
    const orthornn_device* device, const orthornn_rank_one_chain* chain, const orthornn_layout* layout,
    const orthornn_chain_inputs* inputs, const orthornn_chain_gradients* gradients, void* saved,
    int64_t saved_bytes, void* workspace, int64_t workspace_bytes) {
  return guarded(device, [&] {
    const ChainCall call(device, chain, layout_of(layout));
    with_real(chain->dtype, [&]<class T>(std::type_identity<T>) {
      const auto input = call.input<T>(inputs);
      const auto results = call.gradients<T>(gradients, *inputs);
      StackOperation stack(device, call.layout, call.device, Pass::backward, call.memory<T>(),
                           {saved, saved_bytes, workspace, workspace_bytes});
      push_kept(ChainWork<T>{input, call.layout, call.options, stack.saved()});
      rank_one_chain_backward<T>(input, call.layout, call.options, results, stack.saved());
    });
  });
}
