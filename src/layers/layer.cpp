#include "orthornn/layers/layer.hpp"

#include <fmt/format.h>

#include "core/back_end.hpp"
#include "cuda/layers/affine_map.hpp"
#include "linalg/elementwise.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// `states` are none, or one of the right shape for each state of the layer.
template <class T, class U>
void check_states(const char* name, std::span<const TensorView<U>> states, const Layer<T>& layer, Index batch,
                  bool may_be_empty = false) {
  if (states.empty()) return;
  const Index count = static_cast<Index>(states.size());
  if (count != layer.state_count())
    throw ShapeError(fmt::format("{} {} for a layer that has {}", count, name, layer.state_count()));
  for (Index i = 0; i < count; ++i) {
    const TensorView<U>& state = states[static_cast<std::size_t>(i)];
    if (!state.empty() || !may_be_empty) check_shape(name, state.shape(), layer.state_shape(i, batch));
  }
}

}  // namespace

template <class T>
Layer<T>::Layer(ParameterSet<T>& parameters, Index input_size, Index output_size)
    : parameters_(parameters),
      input_size_(input_size),
      output_size_(output_size),
      first_parameter_(parameters.count()) {}

template <class T>
void Layer<T>::parameters_added() {
  parameter_count_ = parameters_.count() - first_parameter_;
}

template <class T>
void Layer<T>::check_input(const SequenceInput<T>& input) const {
  const Index length = input.length(), batch = input.batch();
  if (length < 1 || batch < 1) {
    throw ShapeError(
        fmt::format("an input of {} steps and {} sequences; expected at least one of each", length, batch));
  }
  if (!input.vectors.empty()) check_shape("input", input.vectors.shape(), {length, batch, input_size_});
  if (!input.lengths.empty()) check_shape("lengths", input.lengths.shape(), {batch});
  if constexpr (has_cuda_bodies) {
    if (input.lengths.device().is_cuda()) return cuda::check_lengths(input.lengths, length);
    if (input.symbols.device().is_cuda()) return;
  }
  for (const std::int32_t symbol : input.symbols) {
    if (symbol < 0 || symbol >= input_size_) {
      throw ValueError(fmt::format("input symbol {}; expected 0 to {}", symbol, input_size_ - 1));
    }
  }
  for (const std::int32_t live : input.lengths) {
    if (live < 0 || live > length) throw ValueError(fmt::format("length {}; expected 0 to {}", live, length));
  }
}

template <class T>
TensorView<const T> Layer<T>::forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                      Saved& saved) const {
  check_input(input);
  check_states("initial states", start, *this, input.batch());
  check_states("last states", last, *this, input.batch());
  return run_forward(input, start, last, saved);
}

template <class T>
void Layer<T>::backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, Saved& saved,
                        Saved& scratch) const {
  const Index length = input.length(), batch = input.batch();
  check_shape("d_output", arguments.d_output.shape(), {length, batch, output_size_});
  if (!arguments.d_input.empty()) {
    check_shape("d_input", arguments.d_input.shape(), {length, batch, input_size_});
  }
  check_states("d_last", arguments.d_last, *this, batch, /*may_be_empty=*/true);
  check_states("d_start", arguments.d_start, *this, batch);
  const Saved::Scope scope(scratch);
  if (arguments.parameters == Gradients::overwrite || parameter_count_ == 0) {
    return run_backward(input, arguments, saved, scratch);
  }
  // The sums overwrite. Added up in another order, they would have other bits than the first time.
  const TensorView<T> own = parameters_.gradients().view().slice(first_parameter_, parameter_count_);
  const TensorView<T> before = scratch.push<T>(own.shape());
  copy<T>(own, before);
  run_backward(input, arguments, saved, scratch);
  add<T>(columns_of(before), columns_of(own));
}

template class Layer<float>;
template class Layer<double>;

}  // namespace orthornn
