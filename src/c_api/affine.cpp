// y = W x + b for all steps of a recurrence.

#include "c_api/arguments.hpp"
#include "core/set_zero.hpp"
#include "layers/affine_map.hpp"
#include "linalg/packed_matrix.hpp"

namespace orthornn::c_api {
namespace {

/// The sizes and settings of a map that have been checked.
struct Affine {
  explicit Affine(const orthornn_affine& affine, const orthornn_device* caller)
      : device(device_of(caller)),
        execution(device, precision_of(affine.precision)),
        length(size_of("affine.length", affine.length, 0)),
        batch(size_of("affine.batch", affine.batch, 0)),
        inputs(check_matrix_size("affine.inputs", affine.inputs)),
        outputs(check_matrix_size("affine.outputs", affine.outputs)) {
    bytes_of("x", x(), sizeof(double));
    bytes_of("y", y(), sizeof(double));
    bytes_of("w", w(), sizeof(double));
  }

  Device device;
  Execution execution;
  Index length, batch, inputs, outputs;

  Shape x() const { return {length, batch, inputs}; }
  Shape y() const { return {length, batch, outputs}; }
  Shape w() const { return {outputs, inputs}; }
};

template <class T>
std::size_t forward_bytes(const Affine& affine) {
  return planned_bytes(affine.device, [&] {
    if (!affine.device.is_cuda()) PackedMatrix<T>().reserve(affine.outputs, affine.inputs, affine.device);
  });
}

/// Sums of columns on the CPU.
template <class T>
std::size_t backward_bytes(const Affine& affine) {
  return planned_bytes(affine.device, [&] {
    if (!affine.device.is_cuda()) Tensor<double>(Shape{2, affine.outputs}, affine.device);
  });
}

}  // namespace
}  // namespace orthornn::c_api

using namespace orthornn;
using namespace orthornn::c_api;

orthornn_status orthornn_affine_forward_workspace(const orthornn_device* device,
                                                  const orthornn_affine* affine, int64_t* bytes) {
  return guarded_real(device, "affine", affine, [&]<class T>(std::type_identity<T>) {
    set_bytes(bytes, forward_bytes<T>(Affine(*affine, device)));
  });
}

orthornn_status orthornn_affine_forward(const orthornn_device* device, const orthornn_affine* affine,
                                        const void* w, const void* b, const void* x, void* y, void* workspace,
                                        int64_t workspace_bytes) {
  return guarded_real(device, "affine", affine, [&]<class T>(std::type_identity<T>) {
    const Affine checked(*affine, device);
    const Device where = checked.device;
    const auto weights = view_of<const T>("w", w, checked.w(), where);
    const auto bias = optional_view<const T>("b", b, {checked.outputs}, where);
    const auto vectors = view_of<const T>("x", x, checked.x(), where);
    const auto results = view_of<T>("y", y, checked.y(), where);
    const Operation operation(device, workspace, workspace_bytes, forward_bytes<T>(checked));
    if (results.empty()) return;
    Saved scratch(where);
    AffineMap<T>(checked.inputs, checked.outputs, checked.execution)
        .forward({.vectors = vectors}, weights, bias, results, scratch);
  });
}

orthornn_status orthornn_affine_backward_workspace(const orthornn_device* device,
                                                   const orthornn_affine* affine, int64_t* bytes) {
  return guarded_real(device, "affine", affine, [&]<class T>(std::type_identity<T>) {
    set_bytes(bytes, backward_bytes<T>(Affine(*affine, device)));
  });
}

orthornn_status orthornn_affine_backward(const orthornn_device* device, const orthornn_affine* affine,
                                         const void* w, const void* x, const void* d_y, const void* states,
                                         void* d_w, void* d_b, void* d_modrelu_bias, void* d_x,
                                         void* workspace, int64_t workspace_bytes) {
  return guarded_real(device, "affine", affine, [&]<class T>(std::type_identity<T>) {
    const Affine checked(*affine, device);
    const Device where = checked.device;
    const Shape sums{checked.outputs};
    const auto weights = view_of<const T>("w", w, checked.w(), where);
    const auto vectors = view_of<const T>("x", x, checked.x(), where);
    const auto g = view_of<const T>("d_y", d_y, checked.y(), where);
    typename AffineMap<T>::To to{
        .weights = view_of<T>("d_w", d_w, checked.w(), where),
        .bias = optional_view<T>("d_b", d_b, sums, where),
        .signed_bias = optional_view<T>("d_modrelu_bias", d_modrelu_bias, sums, where),
        .input = optional_view<T>("d_x", d_x, checked.x(), where)};
    if (!to.signed_bias.empty()) to.states = view_of<const T>("states", states, checked.y(), where);
    const Operation operation(device, workspace, workspace_bytes, backward_bytes<T>(checked));
    if (g.empty()) {
      // Sums of nothing. A map takes empty vectors for symbols.
      for (const TensorView<T>& sum : {to.weights, to.bias, to.signed_bias}) set_zero(sum);
      return;
    }
    Saved scratch(where);
    AffineMap<T>(checked.inputs, checked.outputs, checked.execution)
        .backward({.vectors = vectors}, weights, g, to, scratch);
  });
}
