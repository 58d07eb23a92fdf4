#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orthogonal/check_tensor.hpp"
#include "orthogonal/dense_transition.hpp"
#include "orthogonal/factories.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

template <class T>
class FreeMatrix final : public DenseTransition<T> {
 public:
  FreeMatrix(const Unconstrained& options, Index n, const Execution& execution)
      : DenseTransition<T>(parameter_of(options, n), execution), init_(options.init) {}

  void prepare(ConstTensorView<T> parameters) override {
    check_tensor("matrix", parameters, this->parameter_shape(), this->device());
    copy<T>(parameters, this->matrix_.q());
    this->matrix_.pack();
    this->set_prepared(true);
  }
  void backward(ConstTensorView<T> d_q, TensorView<T> d_parameters) override {
    check_tensor("d_q", d_q, this->parameter_shape(), this->device());
    check_tensor("d_matrix", d_parameters, this->parameter_shape(), this->device());
    copy<T>(d_q, d_parameters);
  }
  double flops_of_prepare() const override { return 0; }

 protected:
  void draw(std::uint64_t seed, TensorView<T> parameters) const override {
    Tensor<double> q(this->parameter_shape());
    initial_matrix(init_, seed, this->hidden_size(), 1, q);
    std::transform(q.begin(), q.end(), parameters.begin(), [](double x) { return static_cast<T>(x); });
  }
  void find_parameters(ConstTensorView<T> q, TensorView<T> parameters) const override {
    copy<T>(q, parameters);
  }

 private:
  Init init_;
};

}  // namespace

template <class T>
std::unique_ptr<Transition<T>> make(const Unconstrained& options, Index hidden_size,
                                    const Execution& execution) {
  return std::make_unique<FreeMatrix<T>>(options, hidden_size, execution);
}

template std::unique_ptr<Transition<float>> make<float>(const Unconstrained&, Index, const Execution&);
template std::unique_ptr<Transition<double>> make<double>(const Unconstrained&, Index, const Execution&);

}  // namespace orthornn
