#pragma once
// Delta products and rank-one chains of tests on a GPU, as calls of the C interface.

#include "c_api/gpu_case.hpp"
#include "delta/chain_case.hpp"
#include "delta/delta_case.hpp"
#include "delta/device_results.hpp"

namespace orthornn::testing {

/// A layout as both interfaces take it.
struct LayoutOfBoth {
  orthornn_layout c;
  TokenLayout cpp;
};

inline const std::vector<std::int32_t> lengths_of_four = {37, 0, 5, 21};
inline const std::vector<std::int64_t> offsets_of_four = {0, 30, 30, 31, 90};

inline std::vector<LayoutOfBoth> four_sequences() {
  const TensorView<const std::int32_t> lengths(lengths_of_four.data(), {4});
  return {
      {{ORTHORNN_SEQUENCE_MAJOR, 0, 4, 37, nullptr, nullptr}, TokenLayout::sequence_major(4, 37)},
      {{ORTHORNN_TIME_MAJOR, 0, 4, 37, nullptr, nullptr}, TokenLayout::time_major(37, 4)},
      {{ORTHORNN_SEQUENCE_MAJOR, 0, 4, 37, lengths_of_four.data(), nullptr},
       TokenLayout::sequence_major(4, 37, lengths)},
      {{ORTHORNN_TIME_MAJOR, 0, 4, 37, lengths_of_four.data(), nullptr},
       TokenLayout::time_major(37, 4, lengths)},
      {{ORTHORNN_PACKED, 0, 4, 0, nullptr, offsets_of_four.data()}, TokenLayout::packed(offsets_of_four)}};
}

/// The calls of the C interface for a case on a GPU.
template <class T>
struct DeltaCalls {
  DeltaCase<T>& c;
  orthornn_layout layout;
  orthornn_device device;
  orthornn_delta_product product;

  DeltaCalls(DeltaCase<T>& on_gpu, const orthornn_layout& of, const orthornn_device& where)
      : c(on_gpu), layout(of), device(where) {
    const Shape keys = c.keys.shape();
    const int decays = c.log_decays.empty() ? 0 : c.log_decays.shape().rank() - 1;
    product = {.dtype = dtype_of<T>,
               .form = c.options.form == DeltaForm::chunked ? ORTHORNN_CHUNKED : ORTHORNN_RECURRENT,
               .unit_keys = c.options.unit_keys ? 1 : 0,
               .precision = static_cast<std::int32_t>(c.options.precision),
               .decay = decays,
               .removals = c.removals.empty() ? 0 : 1,
               .scale = c.options.scale,
               .chunk = c.options.chunk,
               .segments = c.options.segments,
               .factors = keys[1],
               .heads = keys[2],
               .key = keys[3],
               .value = c.values.shape()[3]};
  }

  orthornn_delta_inputs inputs() const {
    return {c.queries.data(),    c.keys.data(),     c.values.data(),        c.betas.data(),
            c.log_decays.data(), c.removals.data(), c.initial_states.data()};
  }
  std::int64_t saved_bytes() const {
    return asked_bytes(orthornn_delta_product_saved, &device, &product, &layout);
  }
  std::int64_t forward_bytes(std::int32_t keeps) const {
    return asked_bytes(orthornn_delta_product_forward_workspace, &device, &product, &layout, keeps);
  }
  std::int64_t backward_bytes() const {
    return asked_bytes(orthornn_delta_product_backward_workspace, &device, &product, &layout);
  }
  void forward(GpuWorkspace* saved, GpuWorkspace& workspace) {
    const orthornn_delta_inputs given = inputs();
    require_status(orthornn_delta_product_forward(
        &device, &product, &layout, &given, c.outputs.data(), c.final_states.data(),
        saved == nullptr ? nullptr : saved->data(), saved == nullptr ? 0 : saved->bytes(), workspace.data(),
        workspace.bytes()));
  }
  void backward(GpuWorkspace& saved, GpuWorkspace& workspace) {
    const orthornn_delta_inputs given = inputs();
    const orthornn_delta_gradients gradients = {
        c.d_outputs.data(),    c.d_final_states.data(), c.d_queries.data(),
        c.d_keys.data(),       c.d_values.data(),       c.d_betas.data(),
        c.d_log_decays.data(), c.d_removals.data(),     c.d_initial_states.data()};
    require_status(orthornn_delta_product_backward(&device, &product, &layout, &given, &gradients,
                                                   saved.data(), saved.bytes(), workspace.data(),
                                                   workspace.bytes()));
  }
};

/// The same for a chain.
template <class T>
struct ChainCalls {
  ChainCase<T>& c;
  orthornn_layout layout;
  orthornn_device device;
  orthornn_rank_one_chain chain;

  ChainCalls(ChainCase<T>& on_gpu, const orthornn_layout& of, const orthornn_device& where)
      : c(on_gpu), layout(of), device(where) {
    const Shape left = c.left.shape();
    chain = {.dtype = dtype_of<T>,
             .reserved = 0,
             .chunk = c.options.chunk,
             .heads = left[1],
             .size = left[2],
             .columns = c.initial_states.shape()[3]};
  }

  orthornn_chain_inputs inputs() const {
    return {c.left.data(), c.right.data(), c.left_scales.data(), c.right_scales.data(),
            c.initial_states.data()};
  }
  std::int64_t saved_bytes() const {
    return asked_bytes(orthornn_rank_one_chain_saved, &device, &chain, &layout);
  }
  std::int64_t forward_bytes(std::int32_t keeps) const {
    return asked_bytes(orthornn_rank_one_chain_forward_workspace, &device, &chain, &layout, keeps);
  }
  std::int64_t backward_bytes() const {
    return asked_bytes(orthornn_rank_one_chain_backward_workspace, &device, &chain, &layout);
  }
  void forward(GpuWorkspace* saved, GpuWorkspace& workspace) {
    const orthornn_chain_inputs given = inputs();
    require_status(orthornn_rank_one_chain_forward(
        &device, &chain, &layout, &given, c.outputs.data(), c.final_states.data(),
        saved == nullptr ? nullptr : saved->data(), saved == nullptr ? 0 : saved->bytes(), workspace.data(),
        workspace.bytes()));
  }
  void backward(GpuWorkspace& saved, GpuWorkspace& workspace) {
    const orthornn_chain_inputs given = inputs();
    const orthornn_chain_gradients gradients = {
        c.d_outputs.data(),     c.d_final_states.data(), c.d_left.data(),          c.d_right.data(),
        c.d_left_scales.data(), c.d_right_scales.data(), c.d_initial_states.data()};
    require_status(orthornn_rank_one_chain_backward(&device, &chain, &layout, &given, &gradients,
                                                    saved.data(), saved.bytes(), workspace.data(),
                                                    workspace.bytes()));
  }
};

// What `results()` of a case begins with: outputs and final states.
inline constexpr std::size_t of_forward = 2;

/// Memory for a forward that keeps and a backward. An address of a workspace may be odd.
struct Lent {
  template <class Calls>
  Lent(Device device, const Calls& calls)
      : saved(device, calls.saved_bytes(), 0),
        forward(device, calls.forward_bytes(1), 1),
        backward(device, calls.backward_bytes(), 3) {}
  GpuWorkspace saved, forward, backward;
};

/// Runs a case that is on the GPU by the C++ functions, and again by the C interface, with equal bits.
template <class Calls, class Case>
auto check_like_cpp(Case& c, Calls& calls, Device device) {
  c.run();
  std::vector expected = results_on_host(c);
  spoil_results(c);
  {
    GpuWorkspace workspace(device, calls.forward_bytes(0), 1);
    calls.forward(nullptr, workspace);
    require_results(c, expected, of_forward);
  }
  spoil_results(c);
  Lent lent(device, calls);
  calls.forward(&lent.saved, lent.forward);
  require_results(c, expected, of_forward);
  // Saved in another place meanwhile.
  GpuWorkspace moved(device, lent.saved.bytes(), 0);
  if (moved.bytes() > 0) moved.copy_from(lent.saved);
  calls.backward(moved, lent.backward);
  require_results(c, expected, c.results().size());
  return expected;
}

}  // namespace orthornn::testing
