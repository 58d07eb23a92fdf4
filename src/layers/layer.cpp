#include "orthornn/layers/layer.hpp"

#include <fmt/format.h>

#include "core/set_zero.hpp"
#include "layers/checks.hpp"
#include "linalg/elementwise.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// On a GPU the kernel that reads the symbols checks them.
void check_symbols(TensorView<const std::int32_t> symbols, Index count) {
  if (symbols.device().is_cuda()) return;
  for (const std::int32_t symbol : symbols) {
    if (symbol < 0 || symbol >= count)
      throw ValueError(fmt::format("input symbol {}; expected 0 to {}", symbol, count - 1));
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
Layer<T>::Layer(const std::vector<std::unique_ptr<Layer>>& inner, Index input_size, Index output_size)
    : Layer(inner.front()->parameters_, input_size, output_size) {
  first_parameter_ = inner.front()->first_parameter_;
  for (const auto& layer : inner) {
    if (&layer->parameters_ != &parameters_ ||
        layer->first_parameter_ != first_parameter_ + parameter_count_) {
      throw ValueError(
          "the layers of one layer have their parameters apart; expected them in one set, added in the order "
          "of the layers with nothing between them");
    }
    parameter_count_ += layer->parameter_count_;
  }
}

template <class T>
void Layer<T>::parameters_added() {
  parameter_count_ = parameters_.count() - first_parameter_;
}

template <class T>
void Layer<T>::check_device(const char* name, Device found) const {
  if (found == device()) return;
  throw DeviceError(fmt::format("{} in memory of {} was given to a layer on {}; copy it there first", name,
                                to_string(found), to_string(device())));
}

template <class T>
void Layer<T>::check_prepared() const {
  if (!prepared_) throw ValueError("a layer was run before prepare()");
}

template <class T>
void Layer<T>::check_inverse(ConstTensorView<T> y, TensorView<T> x) const {
  check_prepared();
  if (y.shape().rank() < 1 || y.shape()[-1] != output_size_) {
    throw ShapeError(fmt::format("outputs of shape {} were given to an inverse; expected [.., {}]",
                                 to_string(y.shape()), output_size_));
  }
  check_shape("inputs of an inverse", x.shape(), y.shape());
  check_device("outputs", y.device());
  check_device("inputs", x.device());
}

template <class T>
void Layer<T>::check_input(const SequenceInput<T>& input) const {
  const Index length = input.length(), batch = input.batch();
  if (length < 1 || batch < 1) {
    throw ShapeError(
        fmt::format("an input of {} steps and {} sequences; expected at least one of each", length, batch));
  }
  if (!input.vectors.empty()) {
    check_shape("input", input.vectors.shape(), {length, batch, input_size_});
    check_device("input", input.vectors.device());
  } else {
    check_shape("symbols", input.symbols.shape(), {length, batch});
    check_device("symbols", input.symbols.device());
  }
  if (!input.lengths.empty()) {
    check_shape("lengths", input.lengths.shape(), {batch});
    check_device("lengths", input.lengths.device());
  }
  if (!input.noise.empty()) {
    check_shape("noise", input.noise.shape(), {1});
    check_device("noise", input.noise.device());
  }
  check_symbols(input.symbols, input_size_);
  check_lengths(input.lengths, length);
}

/// `states` are none, or one of the right shape for each state of the layer.
template <class T>
template <class U>
void Layer<T>::check_states(const char* name, States<U> states, Index batch, bool may_be_empty) const {
  if (states.empty()) return;
  const Index count = static_cast<Index>(states.size());
  if (count != state_count())
    throw ShapeError(fmt::format("{} {} for a layer that has {}", count, name, state_count()));
  for (Index i = 0; i < count; ++i) {
    const TensorView<U>& state = states[static_cast<std::size_t>(i)];
    if (state.empty() && may_be_empty) continue;
    check_shape(name, state.shape(), state_shape(i, batch));
    check_device(name, state.device());
  }
}

template <class T>
void Layer<T>::initial_state(States<T> states) const {
  if (states.empty()) return;
  check_states("initial states", states, states[0].shape().rank() > 0 ? states[0].shape()[0] : 0);
  run_initial_state(states);
}

template <class T>
void Layer<T>::run_initial_state(States<T> states) const {
  for (const TensorView<T>& state : states) set_zero(state);
}

template <class T>
void Layer<T>::prepare() {
  prepared_ = false;
  parameters_.check_allocated();
  run_prepare();
  prepared_ = true;
}

template <class T>
TensorView<const T> Layer<T>::forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                      Saved& saved) const {
  check_prepared();
  check_input(input);
  check_states("initial states", start, input.batch());
  check_states("last states", last, input.batch());
  check_device("the stack", saved.device());
  const Index before = saved.size();
  try {
    const TensorView<const T> y = run_forward(input, start, last, saved);
    saved.close_frame({.owner = this,
                       .length = input.length(),
                       .batch = input.batch(),
                       .own_start = start.empty(),
                       .first = before,
                       .end = 0,
                       .output = y.data()});
    return y;
  } catch (...) {
    saved.pop(saved.size() - before);
    throw;
  }
}

template <class T>
void Layer<T>::check_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                              const Saved& saved, const Saved& scratch) const {
  if (&saved == &scratch)
    throw ValueError("a backward was given one stack twice; expected another for scratch");
  const Index length = input.length(), batch = input.batch();
  const Saved::Frame& frame = saved.last_frame(this);
  if (frame.length != length || frame.batch != batch) {
    throw ValueError(fmt::format("a backward was given {} steps of {} sequences; its forward had {} of {}",
                                 length, batch, frame.length, frame.batch));
  }
  check_shape("d_output", arguments.d_output.shape(), {length, batch, output_size_});
  check_device("d_output", arguments.d_output.device());
  check_device("scratch", scratch.device());
  if (!arguments.d_input.empty()) {
    if (input.vectors.empty()) throw ValueError("symbols have no gradient; expected an empty d_input");
    check_shape("d_input", arguments.d_input.shape(), {length, batch, input_size_});
    check_device("d_input", arguments.d_input.device());
  }
  check_states("d_last", arguments.d_last, batch, /*may_be_empty=*/true);
  check_states("d_start", arguments.d_start, batch);
}

template <class T>
void Layer<T>::backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, Saved& saved,
                        Saved& scratch) const {
  check_backward(input, arguments, saved, scratch);
  const Saved::Frame frame = saved.last_frame(this);
  const Saved::Scope scope(scratch);
  if (arguments.d_output_is_zero && !takes_zero_output()) set_zero(arguments.d_output);
  if (arguments.parameters == Gradients::overwrite || parameter_count_ == 0 || adds_gradients()) {
    run_backward(input, arguments, frame.own_start, saved, scratch);
  } else {
    // A layer's sums overwrite, so what was there waits on the stack.
    const TensorView<T> own = parameters_.gradients().view().slice(first_parameter_, parameter_count_);
    const TensorView<T> before = scratch.push<T>(own.shape());
    copy<T>(own, before);
    run_backward(input, arguments, frame.own_start, saved, scratch);
    add<T>(columns_of(before), columns_of(own));
  }
  saved.pop(saved.size() - frame.first);
}

template class Layer<float>;
template class Layer<double>;

}  // namespace orthornn
