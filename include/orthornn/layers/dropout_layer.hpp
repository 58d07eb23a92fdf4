#pragma once

#include <string>

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

template <class T>
class DropoutLayer;

/// Dropout (Srivastava et al., JMLR 2014), as plain values.
struct Dropout {
  static constexpr const char* name = "dropout";
  template <class T>
  using Layer = DropoutLayer<T>;
  static constexpr LayerTraits traits{.draws_noise = true};
  double rate = 0.1;

  static void fields(auto&& visit) {
    visit("rate", &Dropout::rate, domain::below_one, "Share of the numbers that become 0 in training");
  }
};

/// Where the input has noise: y = x / (1 - rate), but 0 with probability `rate`, for each number by itself.
/// Else y = x. It has no parameters.
///
/// The mask is a function of noise, layer and place [t, b, n] alone (Philox), the same on every device. Other
/// Dropouts of the same ParameterSet have other masks. The parts of a sequence that is cut need keys of their
/// own.
template <class T>
class DropoutLayer final : public Layer<T> {
 public:
  /// Adds nothing. Throws ValueError for a size below 1 and a rate outside [0, 1) in T.
  static void add_parameters(ParameterSet<T>& parameters, const std::string& prefix, const Dropout& options,
                             Index size);

  DropoutLayer(ParameterSet<T>& parameters, const std::string& prefix, const Dropout& options, Index size);

  void initialize(std::uint64_t) override {}
  LayerDescription describe(Index length, Index batch) const override;

 private:
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;

  double rate_;
  std::uint64_t stream_;
};

extern template class DropoutLayer<float>;
extern template class DropoutLayer<double>;

}  // namespace orthornn
