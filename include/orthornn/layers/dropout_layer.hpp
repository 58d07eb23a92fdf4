#pragma once

#include <string>

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

template <class T>
class DropoutLayer;

/// Options of a DropoutLayer (Srivastava et al., JMLR 2014).
struct Dropout {
  static constexpr const char* name = "dropout";  ///< Name in files.
  /// Layer that these options make.
  template <class T>
  using Layer = DropoutLayer<T>;
  /// What models ask of these layers before there is one.
  static constexpr LayerTraits traits{.draws_noise = true};
  /// Share of the numbers that become 0 in training, 0 to below 1.
  double rate = 0.1;

  static void fields(auto&& visit) {
    visit("rate", &Dropout::rate, domain::below_one, "Share of the numbers that become 0 in training");
  }
};

/// A layer that sets a share of the numbers to 0 in training. Where the input has noise, each number of y is
/// 0 with probability `rate`, and else x / (1 - rate). Where it has none, as in evaluation, y = x. The layer
/// has no parameters.
///
/// The mask is a function of noise, layer and place [t, b, n] alone (Philox), equal on every device. Other
/// Dropouts of one ParameterSet have other masks. The parts of a sequence that is cut need keys of their own.
template <class T>
class DropoutLayer final : public Layer<T> {
 public:
  /// Checks the options, and adds no parameter. Throws ValueError for a size below 1 and for a rate outside
  /// [0, 1) in T.
  static void add_parameters(ParameterSet<T>& parameters, const std::string& prefix, const Dropout& options,
                             Index size);

  /// Makes a layer for vectors of `size` numbers, with a random stream of its own in the set. Throws as
  /// `add_parameters`.
  DropoutLayer(ParameterSet<T>& parameters, const std::string& prefix, const Dropout& options, Index size);

  void initialize(std::uint64_t) override {}
  LayerDescription describe(Index, Index) const override { return this->description(Dropout::name); }

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
