#include "orthornn/layers/orthogonal_linear_layer.hpp"

#include <fmt/format.h>

#include "core/set_zero.hpp"
#include "layers/affine_map.hpp"
#include "layers/checks.hpp"
#include "layers/orthonormal_matrix.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {

template <class T>
typename OrthogonalLinearLayer<T>::Places OrthogonalLinearLayer<T>::add_parameters(
    ParameterSet<T>& parameters, const std::string& prefix, const OrthogonalLinear& options,
    Index input_size) {
  check_options<T>(options, input_size);
  const Index n = options.output_size(input_size);
  const Parameter point = OrthonormalMatrix<T>::parameter(options.matrix, n, input_size);
  return {.matrix = parameters.add(prefix + "/" + point.name, point.shape, point.kind),
          .bias = parameters.add(prefix + "/bias", {n})};
}

template <class T>
OrthogonalLinearLayer<T>::OrthogonalLinearLayer(ParameterSet<T>& parameters, const std::string& prefix,
                                                const OrthogonalLinear& options, Index input_size,
                                                const Execution& execution)
    : Layer<T>(parameters, input_size, options.output_size(input_size)),
      execution_(execution),
      places_(add_parameters(parameters, prefix, options, input_size)),
      matrix_(
          std::make_unique<OrthonormalMatrix<T>>(options.matrix, this->output_size(), input_size, execution)),
      map_(std::make_unique<AffineMap<T>>(input_size, this->output_size(), execution)) {
  this->parameters_added();
  if (this->output_size() == input_size) offset_ = Tensor<T>({input_size}, execution.device);
}

template <class T>
OrthogonalLinearLayer<T>::~OrthogonalLinearLayer() = default;

template <class T>
void OrthogonalLinearLayer<T>::initialize(std::uint64_t seed) {
  matrix_->initialize(seed, this->parameters_.value(places_.matrix));
  set_zero(this->parameters_.value(places_.bias));
}

template <class T>
std::optional<Index> OrthogonalLinearLayer<T>::launches(Index, Index) const {
  if (!matrix_->recordable()) return std::nullopt;
  return 0;
}

template <class T>
std::optional<double> OrthogonalLinearLayer<T>::orthogonality_error() {
  return matrix_->orthogonality_error();
}

template <class T>
void OrthogonalLinearLayer<T>::check_invertible() const {
  if (this->output_size() == this->input_size()) return;
  throw ValueError(
      fmt::format("{}: a map of {} inputs to {} outputs has neither an inverse nor a "
                  "determinant; expected as many outputs as inputs",
                  OrthogonalLinear::name, this->input_size(), this->output_size()));
}

template <class T>
void OrthogonalLinearLayer<T>::inverse(ConstTensorView<T> y, TensorView<T> x) const {
  check_invertible();
  this->check_inverse(y, x);
  undo_affine<T>(columns_of(matrix_->view()), this->value(places_.bias), offset_, y, x, execution_.precision);
}

template <class T>
double OrthogonalLinearLayer<T>::log_determinant() const {
  check_invertible();
  return 0;
}

template <class T>
void OrthogonalLinearLayer<T>::run_prepare() {
  matrix_->prepare(this->value(places_.matrix));
  map_->forget();
}

template <class T>
TensorView<const T> OrthogonalLinearLayer<T>::run_forward(const SequenceInput<T>& input, States<const T>,
                                                          States<T>, Saved& saved) const {
  const TensorView<T> y = saved.push<T>({input.length(), input.batch(), this->output_size()});
  map_->forward(input, matrix_->view(), this->value(places_.bias), y, saved);
  return y;
}

template <class T>
void OrthogonalLinearLayer<T>::run_backward(const SequenceInput<T>& input,
                                            const BackwardArguments<T>& arguments, bool, Saved&,
                                            Saved& scratch) const {
  const TensorView<T> d_matrix = scratch.push<T>({this->output_size(), this->input_size()});
  map_->backward(input, matrix_->view(), arguments.d_output,
                 {.weights = d_matrix,
                  .bias = this->gradient(places_.bias),
                  .input = arguments.d_input,
                  .mode = arguments.input},
                 scratch);
  matrix_->backward(d_matrix, this->gradient(places_.matrix), scratch);
}

template class OrthogonalLinearLayer<float>;
template class OrthogonalLinearLayer<double>;

}  // namespace orthornn
