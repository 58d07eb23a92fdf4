#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// Changes values, and moments as many as the rule has, by gradients: one kernel over the flat buffers.
/// Gradients are multiplied by `gradient_scale` [1] where it is there. Numbers whose `is_orthogonal` is not 0
/// go by the second rule. Does nothing where `halted` [1] is there and not 0.
template <class T, class Rule, class... Moments>
void update(TensorView<const std::uint8_t> is_orthogonal, TensorView<const double> gradient_scale,
            TensorView<const std::int64_t> halted, const Rule& ordinary, const Rule& orthogonal, T* values,
            const T* gradients, Moments*... moments);

}  // namespace orthornn::cuda
