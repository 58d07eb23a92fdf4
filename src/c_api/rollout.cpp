// Whole rollouts of h_t = sigma(Q h_{t-1} + a_t) with a matrix Q of the caller.

#include "orthornn/rollouts/rollout.hpp"

#include "c_api/arguments.hpp"
#include "core/set_zero.hpp"
#include "linalg/column_sums.hpp"
#include "linalg/gemm.hpp"
#include "linalg/packed_matrix.hpp"

namespace orthornn::c_api {
namespace {

/// The sizes and settings of a rollout that have been checked.
struct Rollout {
  explicit Rollout(const orthornn_rollout& rollout, const orthornn_device* caller)
      : device(device_of(caller)),
        activation(value_of("rollout.activation", rollout.activation, Activation::identity)),
        execution(device, precision_of(rollout.precision)),
        length(size_of("rollout.length", rollout.length, 0)),
        batch(size_of("rollout.batch", rollout.batch, 0)),
        size(check_matrix_size("rollout.size", rollout.size)) {
    check_reserved("rollout.reserved", rollout.reserved);
    bytes_of("outputs", steps(), sizeof(double));
  }

  Device device;
  Activation activation;
  Execution execution;
  Index length, batch, size;

  Shape steps() const { return {length, batch, size}; }
  Shape states() const { return {batch, size}; }
  Shape matrix() const { return {size, size}; }

  /// Lengths that have been checked, on the CPU. A GPU would have to wait for that.
  TensorView<const std::int32_t> lengths(const std::int32_t* array) const {
    const auto view = optional_view<const std::int32_t>("lengths", array, {batch}, device);
    if (device.is_cuda() || view.empty()) return view;
    for (Index b = 0; b < batch; ++b) {
      if (view(b) < 0 || view(b) > length)
        throw ValueError(fmt::format("lengths[{}] is {}, expected 0 to {}", b, view(b), length));
    }
    return view;
  }
  /// Signs for abs alone.
  template <class Signs>
  TensorView<std::int8_t> signs(Signs* array) const {
    if (activation != Activation::abs) return {};
    return view_of<std::int8_t>("signs", const_cast<std::int8_t*>(array), steps(), device);
  }
};

/// Makes the tensors that `Transition::of_matrix` makes: Q in the order of its products, on the CPU.
template <class T>
void plan_prepare(const Rollout& rollout) {
  if (rollout.device.is_cuda()) return;
  for (int side = 0; side < 2; ++side) PackedMatrix<T>().reserve(rollout.size, rollout.size, rollout.device);
}

template <class T>
std::size_t forward_bytes(const Rollout& rollout) {
  return planned_bytes(rollout.device, [&] { plan_prepare<T>(rollout); });
}

template <class T>
std::size_t backward_bytes(const Rollout& rollout) {
  return planned_bytes(rollout.device, [&] {
    plan_prepare<T>(rollout);
    if (rollout.activation == Activation::modrelu && !rollout.device.is_cuda())
      Tensor<double>(Shape{2, rollout.size}, rollout.device);  // sums that a GPU has in scratch of its own
  });
}

/// d_q <- the sum of g_t h_{t-1}^T over steps and sequences. h_0 lies apart from the other states, and is
/// empty for zeros.
template <class T>
void gradient_of_matrix(const Rollout& rollout, TensorView<const T> h_0, const RolloutGradients<T>& gradients,
                        TensorView<T> d_q) {
  const bool has_first = rollout.length > 0 && !h_0.empty();
  if (!has_first && rollout.length < 2) return set_zero(d_q);
  const TensorView<const T> g = gradients.d_inputs;
  const Precision precision = rollout.execution.precision;
  // The column-major view of C order is that of the transposed matrix, which is H G^T.
  if (has_first) gemm<T>(1, columns_of(h_0), transposed(columns_of(g[0])), 0, columns_of(d_q), precision);
  if (rollout.length < 2) return;
  gemm<T>(1, columns_of(gradients.outputs.slice(0, rollout.length - 1)),
          transposed(columns_of(g.slice(1, rollout.length - 1))), has_first ? 1 : 0, columns_of(d_q),
          precision);
}

}  // namespace
}  // namespace orthornn::c_api

using namespace orthornn;
using namespace orthornn::c_api;

orthornn_status orthornn_rollout_forward_workspace(const orthornn_device* device,
                                                   const orthornn_rollout* rollout, int64_t* bytes) {
  return guarded_real(device, "rollout", rollout, [&]<class T>(std::type_identity<T>) {
    set_bytes(bytes, forward_bytes<T>(Rollout(*rollout, device)));
  });
}

orthornn_status orthornn_rollout_forward(const orthornn_device* device, const orthornn_rollout* rollout,
                                         const void* q, const void* modrelu_bias, const int32_t* lengths,
                                         const void* inputs, const void* h_0, void* outputs, void* h_last,
                                         int8_t* signs, void* workspace, int64_t workspace_bytes) {
  return guarded_real(device, "rollout", rollout, [&]<class T>(std::type_identity<T>) {
    const Rollout checked(*rollout, device);
    const Device where = checked.device;
    const auto matrix = view_of<const T>("q", q, checked.matrix(), where);
    TensorView<const T> bias;
    if (checked.activation == Activation::modrelu)
      bias = view_of<const T>("modrelu_bias", modrelu_bias, {checked.size}, where);
    const auto live = checked.lengths(lengths);
    RolloutStates<T> states{.h_0 = optional_view<const T>("h_0", h_0, checked.states(), where),
                            .inputs = view_of<const T>("inputs", inputs, checked.steps(), where),
                            .outputs = view_of<T>("outputs", outputs, checked.steps(), where),
                            .h_last = view_of<T>("h_last", h_last, checked.states(), where)};
    const RolloutMemory<T> memory{
        .z = {nullptr, {checked.length, checked.batch, 0}, where}, .signs = checked.signs(signs), .y = {}};
    const Operation operation(device, workspace, workspace_bytes, forward_bytes<T>(checked));
    if (h_0 == nullptr) {
      // Each number of h_0 is read before that of h_last is written.
      set_zero(states.h_last);
      states.h_0 = states.h_last;
    }
    const auto transition = Transition<T>::of_matrix(matrix, checked.execution);
    RecordedLoops records;
    rollout_forward<T>(transition, checked.activation, bias, live, states, memory, records);
  });
}

orthornn_status orthornn_rollout_backward_workspace(const orthornn_device* device,
                                                    const orthornn_rollout* rollout, int64_t* bytes) {
  return guarded_real(device, "rollout", rollout, [&]<class T>(std::type_identity<T>) {
    set_bytes(bytes, backward_bytes<T>(Rollout(*rollout, device)));
  });
}

orthornn_status orthornn_rollout_backward(const orthornn_device* device, const orthornn_rollout* rollout,
                                          const void* q, const int32_t* lengths, const void* h_0,
                                          const void* outputs, const int8_t* signs, const void* d_outputs,
                                          const void* d_h_last, void* d_inputs, void* d_h_0, void* d_q,
                                          void* d_modrelu_bias, void* workspace, int64_t workspace_bytes) {
  return guarded_real(device, "rollout", rollout, [&]<class T>(std::type_identity<T>) {
    const Rollout checked(*rollout, device);
    const Device where = checked.device;
    const auto matrix = view_of<const T>("q", q, checked.matrix(), where);
    const auto live = checked.lengths(lengths);
    const auto g = view_of<T>("d_inputs", d_inputs, checked.steps(), where);
    const RolloutGradients<T> gradients{
        .outputs = view_of<const T>("outputs", outputs, checked.steps(), where),
        .d_outputs = optional_view<const T>("d_outputs", d_outputs, checked.steps(), where),
        .d_h_last = optional_view<const T>("d_h_last", d_h_last, checked.states(), where),
        .d_inputs = g,
        .d_h_0 = view_of<T>("d_h_0", d_h_0, checked.states(), where)};
    const auto d_matrix = optional_view<T>("d_q", d_q, checked.matrix(), where);
    const auto first = optional_view<const T>("h_0", h_0, checked.states(), where);
    const auto d_bias = optional_view<T>("d_modrelu_bias", d_modrelu_bias, {checked.size}, where);
    const TensorView<T> no_coefficients(nullptr, {checked.length, checked.batch, 0}, where);
    const RolloutMemory<T> memory{.z = no_coefficients, .signs = checked.signs(signs), .y = no_coefficients};
    const Operation operation(device, workspace, workspace_bytes, backward_bytes<T>(checked));
    const auto transition = Transition<T>::of_matrix(matrix, checked.execution);
    RecordedLoops records;
    rollout_backward<T>(transition, checked.activation, live, gradients, memory, records);
    if (!d_matrix.empty()) gradient_of_matrix<T>(checked, first, gradients, d_matrix);
    if (!d_bias.empty() && checked.activation == Activation::modrelu) {
      Saved scratch(where);
      sum_columns<T>(columns_of(TensorView<const T>(g)),
                     {.signed_total = d_bias, .states = gradients.outputs}, scratch);
    }
  });
}
