#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

/// An affine map at every step, as plain values.
struct Linear {
  static constexpr const char* name = "linear";
  static constexpr LayerTraits traits{.reads_symbols = true};
  Index outputs = 128;

  static void fields(auto&& visit) { visit("outputs", &Linear::outputs, domain::count, "Outputs a step"); }
  Index output_size(Index) const { return outputs; }
};

template <class T>
class AffineMap;

/// y = R x + c at every step: PREFIX/weight [N, K] and PREFIX/bias [N]. Padding gets an output like any other
/// step. The backward does not read y, so a caller may overwrite it.
template <class T>
class LinearLayer final : public Layer<T> {
 public:
  /// Where a layer's parameters are in the set.
  struct Places {
    Index weight, bias;
  };
  /// Adds the parameters of such a layer. Throws ValueError for sizes below 1.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix, Index input_size,
                               Index output_size);

  LinearLayer(ParameterSet<T>& parameters, const std::string& prefix, Index input_size, Index output_size,
              const Execution& execution = {});
  ~LinearLayer() override;

  /// R from N(0, 1 / K), c = 0.
  void initialize(std::uint64_t seed) override;
  LayerDescription describe(Index length, Index batch) const override;

 private:
  void run_prepare() override;
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;

  Places places_;
  std::unique_ptr<AffineMap<T>> map_;
};

extern template class LinearLayer<float>;
extern template class LinearLayer<double>;

}  // namespace orthornn
