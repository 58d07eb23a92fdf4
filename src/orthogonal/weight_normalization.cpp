#include "orthornn/orthogonal/weight_normalization.hpp"

#include <algorithm>

#include "orthogonal/checks.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthogonal/polar_factor.hpp"
#include "orthornn/orthogonal/stiefel_point.hpp"

namespace orthornn {
namespace {

template <class T>
class NormalizedMatrix final : public Parametrization<T> {
 public:
  NormalizedMatrix(Init init, Index n, Device device) : init_(init), factor_(n, n, device) {}

  TensorView<const T> q() const { return factor_.omega(); }

  void prepare(ConstTensorView<T> v) override { factor_.prepare(v); }
  void backward(const Factors<T>& gradient, TensorView<T> d_v) override { factor_.backward(gradient.q, d_v); }
  /// cuSOLVER does not promise that its decomposition can be recorded.
  bool recordable() const override { return false; }
  void draw(std::uint64_t seed, TensorView<T> v) const override {
    Tensor<double> q(v.shape());
    initial_matrix(init_, seed, q.shape()[0], 1, q);
    std::transform(q.begin(), q.end(), v.begin(), [](double x) { return static_cast<T>(x); });
  }
  void find_parameters(ConstTensorView<T> q, TensorView<T> v) const override {
    check_orthogonal<T>(q);
    copy<T>(q, v);
  }

 private:
  Init init_;
  PolarFactor<T> factor_;
};

}  // namespace

Parameter WeightNormalization::parameter(Index hidden_size) const {
  return stiefel_parameter(StiefelKind::weight_normalization, hidden_size, hidden_size);
}

template <class T>
TransitionParts<T> WeightNormalization::parts(Index hidden_size, const Execution& execution) const {
  return dense_parts<T>(std::make_unique<NormalizedMatrix<T>>(init, hidden_size, execution.device));
}

template TransitionParts<float> WeightNormalization::parts<float>(Index, const Execution&) const;
template TransitionParts<double> WeightNormalization::parts<double>(Index, const Execution&) const;

}  // namespace orthornn
