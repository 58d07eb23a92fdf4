#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

template <class T>
class AffineMap;
template <class T>
class GatedMlpLayer;

/// Options of a GatedMlpLayer (SwiGLU: Shazeer, arXiv 2002.05202).
struct GatedMlp {
  static constexpr const char* name = "gated_mlp";  ///< Name in files.
  /// Layer that these options make.
  template <class T>
  using Layer = GatedMlpLayer<T>;
  /// Size M of the vectors within the layer; 0 for 8/3 of the input size K, rounded up to a multiple of 8.
  Index mlp_size = 0;

  static void fields(auto&& visit) {
    visit("mlp_size", &GatedMlp::mlp_size, domain::not_negative,
          "Numbers within the gated MLP; 0 for 8/3 of those it reads, rounded up to a multiple of 8");
  }
};

/// A layer y = W' (SiLU(a) * c) at every step, with [a; c] = W x. The parameters are PREFIX/input_weights
/// [2 M, K], which is W, and PREFIX/output_weights [K, M], which is W'. Padding gets an output like any other
/// step.
template <class T>
class GatedMlpLayer final : public Layer<T> {
 public:
  /// Numbers of a layer's parameters in the set.
  struct Places {
    Index input_weights,  ///< Number of W.
        output_weights;   ///< Number of W'.
  };
  /// Adds the parameters of a layer to the set and returns their numbers. Throws ValueError for a size below
  /// 1 and for options outside their domains, ShapeError for more numbers than fit in 63 bits.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                               const GatedMlp& options, Index size);

  /// Makes a layer for vectors of K = `size` numbers and adds its parameters to the set. Throws as
  /// `add_parameters`.
  GatedMlpLayer(ParameterSet<T>& parameters, const std::string& prefix, const GatedMlp& options, Index size,
                const Execution& execution = {});
  ~GatedMlpLayer() override;

  /// Draws W from N(0, 1 / K) and W' from N(0, 1 / M).
  void initialize(std::uint64_t seed) override;
  LayerDescription describe(Index, Index) const override { return this->description(GatedMlp::name); }

 private:
  void run_prepare() override;
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;

  Index inner_size_;
  Places places_;
  std::unique_ptr<AffineMap<T>> input_map_, output_map_;
};

extern template class GatedMlpLayer<float>;
extern template class GatedMlpLayer<double>;

}  // namespace orthornn
