#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

/// Options of a LinearLayer.
struct Linear {
  static constexpr const char* name = "linear";  ///< Name in files.
  /// What models ask of these layers before there is one.
  static constexpr LayerTraits traits{.reads_symbols = true};
  /// Number N of outputs of a step, 1 or more.
  Index outputs = 128;

  static void fields(auto&& visit) { visit("outputs", &Linear::outputs, domain::count, "Outputs a step"); }
  /// Number of outputs of a step, whatever the number of inputs.
  Index output_size(Index) const { return outputs; }
};

template <class T>
class AffineMap;

/// An affine map y = R x + c at every step. The parameters are PREFIX/weight [N, K], which is R, and
/// PREFIX/bias [N], which is c. Padding gets an output like any other step. The backward does not read y, so
/// a caller may overwrite it.
template <class T>
class LinearLayer final : public Layer<T> {
 public:
  /// Numbers of a layer's parameters in the set.
  struct Places {
    Index weight,  ///< Number of R.
        bias;      ///< Number of c.
  };
  /// Adds the parameters of a layer to the set and returns their numbers. Throws ValueError for sizes
  /// below 1.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix, Index input_size,
                               Index output_size);

  /// Makes a layer and adds its parameters to the set. Throws as `add_parameters`.
  LinearLayer(ParameterSet<T>& parameters, const std::string& prefix, Index input_size, Index output_size,
              const Execution& execution = {});
  ~LinearLayer() override;

  /// Draws R from N(0, 1 / K), and sets c to 0.
  void initialize(std::uint64_t seed) override;
  LayerDescription describe(Index, Index) const override { return this->description(Linear::name); }

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
