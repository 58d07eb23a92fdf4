#include "orthornn/layers/bidirectional_layer.hpp"

#include <fmt/format.h>

#include "layers/step_order.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// The vectors or symbols as a matrix with a column for each step and sequence.
template <class U>
MatrixView<U> steps_of(TensorView<U> x, Index width) {
  return {x.data(), width, x.size() / width, width, x.device()};
}

template <class T>
std::vector<std::unique_ptr<Layer<T>>> both(std::unique_ptr<Layer<T>> forward,
                                            std::unique_ptr<Layer<T>> backward) {
  if (forward->input_size() != backward->input_size()) {
    throw ValueError(
        fmt::format("the directions of a bidirectional layer read {} and {} numbers a step; expected as many",
                    forward->input_size(), backward->input_size()));
  }
  std::vector<std::unique_ptr<Layer<T>>> layers;
  layers.push_back(std::move(forward));
  layers.push_back(std::move(backward));
  return layers;
}

template <class T>
StepOrder as_it_is(const SequenceInput<T>& input) {
  return {.batch = input.batch(), .lengths = {}, .reversed = false};
}
template <class T>
StepOrder from_last_to_first(const SequenceInput<T>& input) {
  return {.batch = input.batch(), .lengths = input.lengths, .reversed = true};
}

/// What the second layer reads, in the memory `to`, [T, B, K] or [T, B].
template <class T, class U>
void reverse_steps(const SequenceInput<T>& input, TensorView<const U> from, TensorView<U> to) {
  const Index width = from.size() / (input.length() * input.batch());
  copy_steps<U>(steps_of(from, width), steps_of(to, width), from_last_to_first(input));
}

}  // namespace

template <class T>
BidirectionalLayer<T>::BidirectionalLayer(std::unique_ptr<Layer<T>> forward,
                                          std::unique_ptr<Layer<T>> backward)
    : BidirectionalLayer(both<T>(std::move(forward), std::move(backward))) {}

template <class T>
BidirectionalLayer<T>::BidirectionalLayer(Layers layers)
    : ContainerLayer<T>("bidirectional", std::move(layers), {"forward.", "backward."},
                        layers[0]->input_size(), layers[0]->output_size() + layers[1]->output_size()) {}

template <class T>
TensorView<const T> BidirectionalLayer<T>::run_forward(const SequenceInput<T>& input, States<const T> start,
                                                       States<T> last, Saved& saved) const {
  const Layer<T>&ahead = *this->layers()[0], &back = *this->layers()[1];
  // 1. What the second layer reads.
  SequenceInput<T> reversed = input;
  if (input.vectors.empty()) {
    const TensorView<std::int32_t> symbols = saved.push<std::int32_t>(input.symbols.shape());
    reverse_steps<T>(input, input.symbols, symbols);
    reversed.symbols = symbols;
  } else {
    const TensorView<T> vectors = saved.push<T>(input.vectors.shape());
    reverse_steps<T>(input, input.vectors, vectors);
    reversed.vectors = vectors;
  }
  // 2. Both, and what they return side by side.
  const TensorView<const T> first = ahead.forward(input, this->template states_of<const T>(0, start),
                                                  this->template states_of<T>(0, last), saved);
  const TensorView<const T> second = back.forward(reversed, this->template states_of<const T>(1, start),
                                                  this->template states_of<T>(1, last), saved);
  const TensorView<T> y = saved.push<T>({input.length(), input.batch(), this->output_size()});
  const MatrixView<T> columns = columns_of(y);
  copy_steps<T>(columns_of(first), columns.block(0, 0, ahead.output_size(), columns.cols), as_it_is(input));
  copy_steps<T>(columns_of(second), columns.block(ahead.output_size(), 0, back.output_size(), columns.cols),
                from_last_to_first(input));
  return y;
}

template <class T>
void BidirectionalLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                                         bool, Saved& saved, Saved& scratch) const {
  const Layer<T>&ahead = *this->layers()[0], &back = *this->layers()[1];
  const Index length = input.length(), batch = input.batch();
  const Saved::Frame frame = saved.open_frame(this);
  SequenceInput<T> reversed = input;
  const Index above = saved.size() - 1 - frame.first;
  if (input.vectors.empty()) {
    reversed.symbols = saved.top<std::int32_t>(above);
  } else {
    reversed.vectors = saved.top<T>(above);
  }
  saved.pop(1);  // y
  // 1. The second layer, whose forward was the last.
  const MatrixView<const T> d_columns = columns_of(arguments.d_output);
  const bool wants_input = !arguments.d_input.empty();
  const TensorView<T> d_reversed = wants_input ? scratch.push<T>(arguments.d_input.shape()) : TensorView<T>();
  {
    const Saved::Scope scope(scratch);
    const TensorView<T> d_second = scratch.push<T>({length, batch, back.output_size()});
    copy_steps<T>(d_columns.block(ahead.output_size(), 0, back.output_size(), d_columns.cols),
                  columns_of(d_second), from_last_to_first(input));
    back.backward(reversed,
                  {.d_output = d_second,
                   .d_last = this->template states_of<const T>(1, arguments.d_last),
                   .d_input = d_reversed,
                   .d_start = this->template states_of<T>(1, arguments.d_start)},
                  saved, scratch);
  }
  // 2. The first.
  const TensorView<T> d_first = scratch.push<T>({length, batch, ahead.output_size()});
  copy_steps<T>(d_columns.block(0, 0, ahead.output_size(), d_columns.cols), columns_of(d_first),
                as_it_is(input));
  ahead.backward(input,
                 {.d_output = d_first,
                  .d_last = this->template states_of<const T>(0, arguments.d_last),
                  .d_input = arguments.d_input,
                  .d_start = this->template states_of<T>(0, arguments.d_start),
                  .input = arguments.input},
                 saved, scratch);
  // 3. What reached the input through the second.
  if (wants_input) {
    copy_steps<T>(columns_of(TensorView<const T>(d_reversed)), columns_of(arguments.d_input),
                  from_last_to_first(input), /*adds=*/true);
  }
}

template class BidirectionalLayer<float>;
template class BidirectionalLayer<double>;

}  // namespace orthornn
