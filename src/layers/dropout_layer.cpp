#include "orthornn/layers/dropout_layer.hpp"

#include "core/for_each.hpp"
#include "layers/checks.hpp"
#include "linalg/elementwise.hpp"
#include "pointwise/dropout.hpp"

namespace orthornn {
namespace {

/// to <- (or +=) from times the mask and its scale; `key` [1].
template <class T>
void drop(const DropoutMask& mask, TensorView<const std::uint64_t> key, TensorView<const T> from,
          TensorView<T> to, bool adds) {
  constexpr Index group = DropoutMask::group;
  for_each(to.device(), (from.size() + group - 1) / group,
           pointwise::Drop<T>{mask, key.data(), from.data(), to.data(), from.size(), adds});
}

}  // namespace

template <class T>
void DropoutLayer<T>::add_parameters(ParameterSet<T>&, const std::string&, const Dropout& options,
                                     Index size) {
  check_options<T>(options, size);
}

template <class T>
DropoutLayer<T>::DropoutLayer(ParameterSet<T>& parameters, const std::string& prefix, const Dropout& options,
                              Index size)
    : Layer<T>(parameters, size, size), rate_(options.rate), stream_(parameters.take_stream()) {
  add_parameters(parameters, prefix, options, size);
}

template <class T>
TensorView<const T> DropoutLayer<T>::run_forward(const SequenceInput<T>& input, States<const T>, States<T>,
                                                 Saved& saved) const {
  check_vectors(Dropout::name, input);
  // The backward draws the mask again: that takes less time than to write and read it, and no memory. The key
  // is kept, for the caller may put the next one in its place before the backward.
  // Without noise its place stays empty, so that all passes of one shape have the same addresses.
  const TensorView<std::uint64_t> key = saved.push<std::uint64_t>({1});
  const TensorView<T> y = saved.push<T>(input.vectors.shape());
  if (input.noise.empty()) {
    copy<T>(input.vectors, y);
  } else {
    copy<std::uint64_t>(input.noise, key);
    drop<T>(DropoutMask(rate_, stream_), key, input.vectors, y, false);
  }
  return y;
}

template <class T>
void DropoutLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool,
                                   Saved& saved, Saved&) const {
  if (arguments.d_input.empty()) return;
  const TensorView<const std::uint64_t> key = saved.top<std::uint64_t>(1);
  const bool adds = arguments.input == Gradients::add;
  if (!input.noise.empty()) {
    drop<T>(DropoutMask(rate_, stream_), key, arguments.d_output, arguments.d_input, adds);
  } else {
    copy_or_add<T>(arguments.d_output, arguments.d_input, adds);
  }
}

template class DropoutLayer<float>;
template class DropoutLayer<double>;

}  // namespace orthornn
