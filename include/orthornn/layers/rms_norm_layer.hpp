#pragma once

#include <string>

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

template <class T>
class RmsNormLayer;

/// Root mean square normalisation (Zhang and Sennrich, NeurIPS 2019), as plain values.
struct RmsNorm {
  static constexpr const char* name = "rms_norm";
  template <class T>
  using Layer = RmsNormLayer<T>;
  /// PyTorch takes the rounding error of the scalar type where none is given.
  double epsilon = 1e-5;

  static void fields(auto&& visit) {
    visit("epsilon", &RmsNorm::epsilon, domain::positive, "Added to the mean square");
  }
};

/// y = g x / sqrt(mean(x^2) + epsilon) at every step, as PyTorch's nn.RMSNorm: PREFIX/gain [N]. The mean is
/// over the N numbers of x. Padding gets an output like any other step.
template <class T>
class RmsNormLayer final : public Layer<T> {
 public:
  /// Adds the parameters of such a layer and returns their place. Throws ValueError for a size below 1 and an
  /// epsilon that is not above 0 in T.
  static Index add_parameters(ParameterSet<T>& parameters, const std::string& prefix, const RmsNorm& options,
                              Index size);

  RmsNormLayer(ParameterSet<T>& parameters, const std::string& prefix, const RmsNorm& options, Index size);

  /// g = 1.
  void initialize(std::uint64_t seed) override;
  LayerDescription describe(Index length, Index batch) const override;

 private:
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;

  T epsilon_;
  Index gain_;
};

extern template class RmsNormLayer<float>;
extern template class RmsNormLayer<double>;

}  // namespace orthornn
