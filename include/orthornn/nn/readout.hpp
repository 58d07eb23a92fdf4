#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/parameters.hpp"

namespace orthornn {

/// y = R h + c for every state of h [.., B, N]: PREFIX/weight [C, N] and PREFIX/bias [C] in a ParameterSet.
/// Everything lies on the execution's device.
template <class T>
class Readout {
 public:
  /// Where its parameters are in the set.
  struct Places {
    Index weight, bias;
  };
  /// Adds the parameters of a readout to the set.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix, Index hidden_size,
                               Index outputs);

  Readout(ParameterSet<T>& parameters, const std::string& prefix, Index hidden_size, Index outputs,
          const Execution& execution = {});
  ~Readout();

  /// R from N(0, 1 / N), c = 0.
  void initialize(std::uint64_t seed);
  void prepare();
  /// h [.., B, N], y [.., B, C]; overwritten.
  void forward(ConstTensorView<T> h, TensorView<T> y) const;
  /// Overwrites the gradients of R and c, and d_h [.., N].
  void backward(ConstTensorView<T> h, ConstTensorView<T> d_y, TensorView<T> d_h);

 private:
  struct Product;

  void check_pair(const Shape& h, const Shape& y) const;

  ParameterSet<T>& parameters_;
  Index hidden_size_;
  Index outputs_;
  Execution execution_;
  Places places_;
  std::unique_ptr<Product> product_;
};

extern template class Readout<float>;
extern template class Readout<double>;

}  // namespace orthornn
