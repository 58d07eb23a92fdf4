#include "orthornn/layers/orthogonal_conv_layer.hpp"

#include <fmt/format.h>

#include "core/set_zero.hpp"
#include "layers/checks.hpp"
#include "layers/frame_convolution.hpp"
#include "layers/frames.hpp"
#include "layers/orthonormal_matrix.hpp"
#include "linalg/column_sums.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// F of frames of C channels.
Index outputs_of(const OrthogonalConv& options, Index channels) {
  return options.channels > 0 ? options.channels : channels;
}

/// Size of the output. Throws as `channels_of`, before a size that is off reaches a shape.
Index checked_output_size(const OrthogonalConv& options, Index input_size) {
  channels_of(options, input_size);
  return options.output_size(input_size);
}

}  // namespace

template <class T>
typename OrthogonalConvLayer<T>::Places OrthogonalConvLayer<T>::add_parameters(ParameterSet<T>& parameters,
                                                                               const std::string& prefix,
                                                                               const OrthogonalConv& options,
                                                                               Index input_size) {
  const Index channels = channels_of(options, input_size), f = outputs_of(options, channels);
  check_options<T>(options, input_size);
  const Index rows = Shape{offsets_of(options), channels}.count();
  const Parameter point = OrthonormalMatrix<T>::parameter(options.kernel, rows, f);
  return {.kernel = parameters.add(prefix + "/" + point.name, point.shape, point.kind),
          .bias = parameters.add(prefix + "/bias", {f})};
}

template <class T>
OrthogonalConvLayer<T>::OrthogonalConvLayer(ParameterSet<T>& parameters, const std::string& prefix,
                                            const OrthogonalConv& options, Index input_size,
                                            const Execution& execution)
    : Layer<T>(parameters, input_size, checked_output_size(options, input_size)),
      options_(options),
      execution_(execution),
      inputs_(channels_of(options, input_size)),
      outputs_(outputs_of(options, inputs_)),
      places_(add_parameters(parameters, prefix, options, input_size)) {
  this->parameters_added();
  const Index q = options.kernel_size;
  kernel_ = std::make_unique<OrthonormalMatrix<T>>(options.kernel, offsets_of(options) * inputs_, outputs_,
                                                   execution);
  // A neighbourhood repeats a pixel at most q^2 times.
  map_ = std::make_unique<FrameConvolution<T>>(options.height, options.width, q, inputs_, outputs_,
                                               T{1} / static_cast<T>(q), execution);
  if (q == 1 && inputs_ == outputs_) offset_ = Tensor<T>({outputs_}, execution.device);
}

template <class T>
OrthogonalConvLayer<T>::~OrthogonalConvLayer() = default;

template <class T>
void OrthogonalConvLayer<T>::initialize(std::uint64_t seed) {
  kernel_->initialize(seed, this->parameters_.value(places_.kernel));
  set_zero(this->parameters_.value(places_.bias));
}

template <class T>
std::optional<Index> OrthogonalConvLayer<T>::launches(Index length, Index) const {
  if (!kernel_->recordable()) return std::nullopt;
  return 1 + map_->launches(length);
}

template <class T>
std::optional<double> OrthogonalConvLayer<T>::orthogonality_error() {
  return kernel_->orthogonality_error();
}

template <class T>
void OrthogonalConvLayer<T>::check_invertible() const {
  if (options_.kernel_size == 1 && inputs_ == outputs_) return;
  throw ValueError(fmt::format(
      "{}: an inverse and a determinant were asked of kernel size {} with {} channels of input and {} of "
      "output; expected kernel size 1 and as many channels of output as of input",
      OrthogonalConv::name, options_.kernel_size, inputs_, outputs_));
}

template <class T>
void OrthogonalConvLayer<T>::inverse(ConstTensorView<T> y, TensorView<T> x) const {
  check_invertible();
  this->check_inverse(y, x);
  const Shape pixels{y.size() / outputs_, outputs_};
  undo_affine<T>(transposed(columns_of(kernel_->view())), this->value(places_.bias), offset_,
                 y.reshaped(pixels), x.reshaped(pixels), execution_.precision);
}

template <class T>
double OrthogonalConvLayer<T>::log_determinant() const {
  check_invertible();
  return 0;
}

template <class T>
void OrthogonalConvLayer<T>::run_prepare() {
  kernel_->prepare(this->value(places_.kernel));
}

template <class T>
TensorView<const T> OrthogonalConvLayer<T>::run_forward(const SequenceInput<T>& input, States<const T>,
                                                        States<T>, Saved& saved) const {
  check_vectors(OrthogonalConv::name, input);
  const Index length = input.length(), batch = input.batch();
  const TensorView<T> y = saved.push<T>({length, batch, this->output_size()});
  const Saved::Scope scope(saved);
  const TensorView<T> around = saved.push<T>(map_->neighbours_shape(batch));
  map_->apply(kernel_->view(), this->value(places_.bias), input.vectors, y, around);
  return y;
}

template <class T>
void OrthogonalConvLayer<T>::run_backward(const SequenceInput<T>& input,
                                          const BackwardArguments<T>& arguments, bool, Saved&,
                                          Saved& scratch) const {
  const TensorView<T> d = arguments.d_output, d_input = arguments.d_input;
  const TensorView<T> around = scratch.push<T>(map_->neighbours_shape(input.batch())),
                      d_kernel = scratch.push<T>(kernel_->view().shape());
  set_zero(d_kernel);
  if (!d_input.empty() && arguments.input == Gradients::overwrite) set_zero(d_input);
  map_->add_kernel_gradient(input.vectors, d, d_kernel, around);
  if (!d_input.empty()) map_->add_input_gradient(kernel_->view(), d, d_input, around);
  sum_rows<T>(d.reshaped({d.size() / outputs_, outputs_}), this->gradient(places_.bias), scratch);
  kernel_->backward(d_kernel, this->gradient(places_.kernel), scratch);
}

template class OrthogonalConvLayer<float>;
template class OrthogonalConvLayer<double>;

}  // namespace orthornn
