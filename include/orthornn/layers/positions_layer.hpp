#pragma once

#include <string>

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

template <class T>
class PositionsLayer;

/// Learned vectors of positions (Gehring et al., ICML 2017, arXiv 1705.03122, section 3.1), as plain values.
struct Positions {
  static constexpr const char* name = "positions";
  template <class T>
  using Layer = PositionsLayer<T>;
  /// Every number up to this one is exact in a float, and so is the count of steps.
  static constexpr Index most_steps = Index{1} << 24;
  Index steps = 1024;

  static void fields(auto&& visit) {
    visit("steps", &Positions::steps, Domain{.low = 1, .high = static_cast<double>(most_steps)},
          "Steps of a sequence that have a vector each");
  }
};

/// y = x + p_s at live step s of a sequence, and y = x beyond its length: PREFIX/vectors [steps, N] has p.
///
/// The state [B, 1] is the number of steps of each sequence so far, a whole number, so that a sequence may be
/// cut. It has no gradient. `forward` throws ValueError for a sequence with more steps than vectors, and for
/// a state that counts nothing; on a GPU the next call that waits does.
template <class T>
class PositionsLayer final : public Layer<T> {
 public:
  /// Adds the parameters of such a layer and returns their place. Throws ValueError for a size below 1 and
  /// options outside their domains, ShapeError for more numbers than fit in 63 bits.
  static Index add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                              const Positions& options, Index size);

  PositionsLayer(ParameterSet<T>& parameters, const std::string& prefix, const Positions& options,
                 Index size);

  Index state_count() const override { return 1; }
  Shape state_shape(Index, Index batch) const override { return {batch, 1}; }
  std::string state_name(Index) const override { return "steps"; }

  /// N(0, 1 / N), as the vectors of an embedding.
  void initialize(std::uint64_t seed) override;
  LayerDescription describe(Index length, Index batch) const override;

 private:
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;
  bool adds_gradients() const override { return true; }

  Index vectors_;
};

extern template class PositionsLayer<float>;
extern template class PositionsLayer<double>;

}  // namespace orthornn
