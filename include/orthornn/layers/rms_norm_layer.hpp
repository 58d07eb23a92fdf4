#pragma once

#include <string>

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

template <class T>
class RmsNormLayer;

/// Options of an RmsNormLayer (Zhang and Sennrich, NeurIPS 2019).
struct RmsNorm {
  static constexpr const char* name = "rms_norm";  ///< Name in files.
  /// Layer that these options make.
  template <class T>
  using Layer = RmsNormLayer<T>;
  /// Number above 0 that is added to the mean square. PyTorch's default is the rounding error of the type.
  double epsilon = 1e-5;

  static void fields(auto&& visit) {
    visit("epsilon", &RmsNorm::epsilon, domain::positive, "Added to the mean square");
  }
};

/// A layer y = g x / sqrt(mean(x^2) + epsilon) at every step, as PyTorch's nn.RMSNorm. Its parameter is
/// PREFIX/gain [N], which is g. The mean is over the N numbers of x. Padding gets an output like any other
/// step.
template <class T>
class RmsNormLayer final : public Layer<T> {
 public:
  /// Adds the gain of a layer to the set and returns its number in it. Throws ValueError for a size below 1
  /// and for an epsilon that is not above 0 in T.
  static Index add_parameters(ParameterSet<T>& parameters, const std::string& prefix, const RmsNorm& options,
                              Index size);

  /// Makes a layer for vectors of N = `size` numbers and adds its parameters to the set. Throws as
  /// `add_parameters`.
  RmsNormLayer(ParameterSet<T>& parameters, const std::string& prefix, const RmsNorm& options, Index size);

  /// Sets g to 1.
  void initialize(std::uint64_t seed) override;
  LayerDescription describe(Index, Index) const override { return this->description(RmsNorm::name); }

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
