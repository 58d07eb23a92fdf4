#include "orthornn/layers/positions_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/for_each.hpp"
#include "core/live_steps.hpp"
#include "core/set_zero.hpp"
#include "cuda/layers/positions.hpp"
#include "layers/checks.hpp"
#include "layers/initialization.hpp"
#include "linalg/elementwise.hpp"
#include "orthornn/core/error.hpp"
#include "pointwise/sequences.hpp"

namespace orthornn {
namespace {

/// Throws ValueError unless `before`, a count of steps [B, 1], and the live steps after it have vectors.
template <class T>
void check_steps(TensorView<const std::int32_t> lengths, TensorView<const T> before, Index length,
                 Index count) {
  for (Index b = 0; b < before.shape()[0]; ++b) {
    const T steps = before(b, 0);
    if (!(steps >= 0 && steps <= static_cast<T>(count)) || steps != std::floor(steps)) {
      throw ValueError(fmt::format(
          "sequence {}: its state says that {} steps have been; expected a whole number from 0 to {}", b,
          steps, count));
    }
    const Index after = static_cast<Index>(steps) + live_steps(lengths, length, b);
    if (after > count) {
      throw ValueError(
          fmt::format("sequence {} has {} steps, but the positions layer has vectors for {}; use shorter "
                      "sequences, or train with as many positions",
                      b, after, count));
    }
  }
}

/// y <- x + the vectors [steps, N] of the live steps; `before` [B, 1] steps have been.
template <class T>
void add_positions(TensorView<const T> x, TensorView<const T> vectors, TensorView<const std::int32_t> lengths,
                   TensorView<const T> before, TensorView<T> y) {
  if constexpr (has_cuda_bodies) {
    if (y.device().is_cuda()) return cuda::add_positions<T>(x, vectors, lengths, before, y);
  }
  const Index length = x.shape()[0], batch = x.shape()[1], size = x.shape()[2];
  check_steps<T>(lengths, before, length, vectors.shape()[0]);
  parallel_for(length * batch, 16, [&](Index first, Index last) {
    for (Index j = first; j < last; ++j) {
      const Index t = j / batch, b = j % batch;
      const T* from = x.data() + j * size;
      T* to = y.data() + j * size;
      if (t >= live_steps(lengths, length, b)) {
        std::copy_n(from, size, to);
        continue;
      }
      const T* vector = vectors[static_cast<Index>(before(b, 0)) + t].data();
      for (Index n = 0; n < size; ++n) to[n] = from[n] + vector[n];
    }
  });
}

/// gradient [some steps, N] <- (or +=) the sums over sequences of d_y [T, B, N] at the live steps, in double.
template <class T>
void sum_positions(TensorView<const T> d_y, TensorView<const std::int32_t> lengths,
                   TensorView<const T> before, TensorView<T> gradient, bool adds) {
  if constexpr (has_cuda_bodies) {
    if (d_y.device().is_cuda()) return cuda::sum_positions<T>(d_y, lengths, before, gradient, adds);
  }
  const Index length = d_y.shape()[0], batch = d_y.shape()[1], size = d_y.shape()[2];
  constexpr Index together = 16;  // numbers of a vector, one after another in memory
  parallel_for(gradient.shape()[0], 1, [&](Index first, Index last) {
    for (Index step = first; step < last; ++step) {
      for (Index begin = 0; begin < size; begin += together) {
        const Index numbers = std::min(together, size - begin);
        double sums[together] = {};
        for (Index b = 0; b < batch; ++b) {
          const Index t = step - static_cast<Index>(before(b, 0));
          if (t < 0 || t >= live_steps(lengths, length, b)) continue;
          const T* from = d_y.data() + (t * batch + b) * size + begin;
          for (Index n = 0; n < numbers; ++n) sums[n] += static_cast<double>(from[n]);
        }
        T* to = gradient[step].data() + begin;
        for (Index n = 0; n < numbers; ++n)
          to[n] = static_cast<T>(adds ? static_cast<double>(to[n]) + sums[n] : sums[n]);
      }
    }
  });
}

/// after [B, 1] <- before + the live steps of T.
template <class T>
void count_steps(TensorView<const T> before, TensorView<const std::int32_t> lengths, Index length,
                 TensorView<T> after) {
  for_each(after.device(), after.size(),
           pointwise::CountSteps<T>{before.data(), or_null(lengths), after.data(), length});
}

}  // namespace

template <class T>
Index PositionsLayer<T>::add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                                        const Positions& options, Index size) {
  check_options<T>(options, size);
  return parameters.add(prefix + "/vectors", {options.steps, size});
}

template <class T>
PositionsLayer<T>::PositionsLayer(ParameterSet<T>& parameters, const std::string& prefix,
                                  const Positions& options, Index size)
    : Layer<T>(parameters, size, size), vectors_(add_parameters(parameters, prefix, options, size)) {
  this->parameters_added();
}

template <class T>
void PositionsLayer<T>::initialize(std::uint64_t seed) {
  RandomStream random(seed, RandomPurpose::initialization, 5);
  draw_normal<T>(this->parameters_.value(vectors_), 1 / std::sqrt(static_cast<double>(this->output_size())),
                 random);
}

template <class T>
TensorView<const T> PositionsLayer<T>::run_forward(const SequenceInput<T>& input, States<const T> start,
                                                   States<T> last, Saved& saved) const {
  check_vectors(Positions::name, input);
  // The backward needs the count, which `last` may overwrite.
  const TensorView<T> before = saved.push<T>({input.batch(), 1});
  if (start.empty()) {
    set_zero(before);
  } else {
    copy<T>(start[0], before);
  }
  const TensorView<T> y = saved.push<T>(input.vectors.shape());
  add_positions<T>(input.vectors, this->value(vectors_), input.lengths, before, y);
  if (!last.empty()) count_steps<T>(before, input.lengths, input.length(), last[0]);
  return y;
}

template <class T>
void PositionsLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                                     bool own_start, Saved& saved, Saved&) const {
  const TensorView<T> gradient = this->gradient(vectors_);
  const bool adds = arguments.parameters == Gradients::add;
  // Sequences that begin have used the first vectors alone.
  const Index count = gradient.shape()[0], used = own_start ? std::min(input.length(), count) : count;
  sum_positions<T>(arguments.d_output, input.lengths, saved.top<T>(1), gradient.slice(0, used), adds);
  if (!adds) set_zero(gradient.slice(used, count - used));
  if (!arguments.d_start.empty()) set_zero(arguments.d_start[0]);
  if (!arguments.d_input.empty())
    copy_or_add<T>(arguments.d_output, arguments.d_input, arguments.input == Gradients::add);
}

template class PositionsLayer<float>;
template class PositionsLayer<double>;

}  // namespace orthornn
