#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "c_api/gpu_case.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {

/// The map of the inputs of a recurrence, forward and backward. NULL is the CPU.
template <class T>
struct AffineCalls {
  orthornn_affine sizes;
  const orthornn_device* device;
  Tensor<T> w, b, x, d_y, states;
  Tensor<T> y, d_w, d_b, d_modrelu_bias, d_x;
  std::unique_ptr<AnyWorkspace> for_forward, for_backward;

  /// A shape is T, B, K and N.
  AffineCalls(std::int32_t precision, const std::array<Index, 4>& shape, const orthornn_device* on)
      : sizes{dtype_of<T>, precision, shape[0], shape[1], shape[2], shape[3]}, device(on) {
    const auto [length, batch, inputs, outputs] = shape;
    // Numbers that a float can hold, so that both types compute with the same ones.
    const auto draw = [](const Shape& of, std::uint64_t seed) {
      return cast<T>(normal_tensor<float>(of, seed));
    };
    w = draw({outputs, inputs}, 1);
    b = draw({outputs}, 2);
    x = draw({length, batch, inputs}, 3);
    d_y = draw({length, batch, outputs}, 4);
    states = draw(d_y.shape(), 5);
    y.resize(d_y.shape());
    d_w.resize(w.shape());
    d_b.resize(b.shape());
    d_modrelu_bias.resize(b.shape());
    d_x.resize(x.shape());
    if (device != nullptr) {
      for (Tensor<T>* each : {&w, &b, &x, &d_y, &states, &y, &d_w, &d_b, &d_modrelu_bias, &d_x})
        *each = each->copy(Device::cuda(device->index));
    }
    for_forward = std::make_unique<AnyWorkspace>(
        device, asked_bytes(orthornn_affine_forward_workspace, device, &sizes));
    for_backward = std::make_unique<AnyWorkspace>(
        device, asked_bytes(orthornn_affine_backward_workspace, device, &sizes));
  }

  orthornn_status forward(const T* bias) {
    return orthornn_affine_forward(device, &sizes, w.data(), bias, x.data(), y.data(), for_forward->data(),
                                   for_forward->bytes());
  }
  orthornn_status backward(T* to_b, T* to_modrelu_bias, T* to_x) {
    return orthornn_affine_backward(device, &sizes, w.data(), x.data(), d_y.data(),
                                    to_modrelu_bias == nullptr ? nullptr : states.data(), d_w.data(), to_b,
                                    to_modrelu_bias, to_x, for_backward->data(), for_backward->bytes());
  }
  void run() {
    require_status(forward(b.data()));
    require_status(backward(d_b.data(), d_modrelu_bias.data(), d_x.data()));
  }
  std::vector<std::pair<const char*, Tensor<T>*>> results() {
    return {{"y", &y}, {"d_w", &d_w}, {"d_b", &d_b}, {"d_modrelu_bias", &d_modrelu_bias}, {"d_x", &d_x}};
  }
};

/// One input, few, and more than kernels have in registers.
inline constexpr std::array<Index, 4> affine_shapes[] = {
    {1, 1, 1, 1}, {5, 3, 1, 70}, {4, 9, 7, 33}, {6, 5, 8, 130}, {3, 4, 40, 9}};

/// No steps or no sequences, of few and of many inputs.
inline constexpr std::array<Index, 4> empty_affine_shapes[] = {{0, 3, 2, 64}, {4, 0, 40, 64}};

/// Gradients of sums of nothing overwrite what is there.
inline void check_empty_affine(const std::array<Index, 4>& shape, const orthornn_device* device,
                               bool has_bias) {
  CAPTURE(shape[0], shape[2], has_bias);
  AffineCalls<float> c(ORTHORNN_PRECISION_FP32, shape, device);
  spoil_results(c);
  require_status(c.forward(has_bias ? c.b.data() : nullptr));
  require_status(c.backward(has_bias ? c.d_b.data() : nullptr, has_bias ? c.d_modrelu_bias.data() : nullptr,
                            c.d_x.data()));
  const auto is_cleared = [](const Tensor<float>& sum) {
    const Tensor<float> here = sum.copy(Device::cpu());
    return std::all_of(here.begin(), here.end(), [](float x) { return x == 0; });
  };
  CHECK(is_cleared(c.d_w));
  if (has_bias) CHECK((is_cleared(c.d_b) && is_cleared(c.d_modrelu_bias)));
}

}  // namespace orthornn::testing
