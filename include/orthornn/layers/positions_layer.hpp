#pragma once

#include <string>

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

template <class T>
class PositionsLayer;

/// Options of a PositionsLayer (Gehring et al., ICML 2017, arXiv 1705.03122, section 3.1).
struct Positions {
  static constexpr const char* name = "positions";  ///< Name in files.
  /// Layer that these options make.
  template <class T>
  using Layer = PositionsLayer<T>;
  /// Largest number of steps: every whole number up to it is exact in a float, which counts the steps.
  static constexpr Index most_steps = Index{1} << 24;
  /// Number of steps of a sequence that have a vector each, 1 or more.
  Index steps = 1024;

  static void fields(auto&& visit) {
    visit("steps", &Positions::steps, Domain{.low = 1, .high = static_cast<double>(most_steps)},
          "Steps of a sequence that have a vector each");
  }
};

/// A layer that adds a learned vector for each step: y = x + p_s at live step s of a sequence, and y = x
/// beyond its length. Its parameter is PREFIX/vectors [steps, N], which has all p_s.
///
/// The state [B, 1] is the number of steps of each sequence so far, a whole number, so that a sequence may be
/// cut. It has no gradient. `forward` throws ValueError for a sequence with more steps than vectors, and for
/// a state that is no number of steps; on a GPU the next call that waits throws it.
template <class T>
class PositionsLayer final : public Layer<T> {
 public:
  /// Adds the vectors of a layer to the set and returns their number in it. Throws ValueError for a size
  /// below 1 and for options outside their domains, ShapeError for more numbers than fit in 63 bits.
  static Index add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                              const Positions& options, Index size);

  /// Makes a layer for vectors of N = `size` numbers and adds its parameters to the set. Throws as
  /// `add_parameters`.
  PositionsLayer(ParameterSet<T>& parameters, const std::string& prefix, const Positions& options,
                 Index size);

  Index state_count() const override { return 1; }
  Shape state_shape(Index, Index batch) const override { return {batch, 1}; }
  std::string state_name(Index) const override { return "steps"; }

  /// Draws the vectors from N(0, 1 / N), as EmbeddingLayer does.
  void initialize(std::uint64_t seed) override;
  LayerDescription describe(Index, Index) const override { return this->description(Positions::name); }

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
