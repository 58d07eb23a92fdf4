#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/layers/layer.hpp"
#include "orthornn/orthogonal/stiefel_point.hpp"
#include "orthornn/orthogonal/transition.hpp"
#include "orthornn/rollouts/applied_matrix.hpp"

namespace orthornn {

/// How the input matrix W [N, K] is parametrised.
enum class InputMatrix {
  free,     ///< W is any matrix.
  stiefel,  ///< W has orthonormal columns, by T-CWY; K <= N.
  own,      ///< W has orthonormal columns, by OWN; K <= N.
  matrix    ///< W has orthonormal columns, by a Riemannian optimizer; K <= N.
};
template <>
struct Names<InputMatrix> {
  using enum InputMatrix;
  static constexpr Choice<InputMatrix> list[] = {
      {"free", free}, {"stiefel", stiefel}, {"own", own}, {"matrix", matrix}};
};

template <class T>
class OrthogonalLayer;

/// Options of an OrthogonalLayer.
struct OrthogonalCell {
  static constexpr const char* name = "orthogonal";  ///< Name in files.
  /// Layer that these options make.
  template <class T>
  using Layer = OrthogonalLayer<T>;
  /// What models ask of these layers before there is one.
  static constexpr LayerTraits traits{.reads_symbols = true, .is_recurrence = true};
  /// Size N of the state, 1 or more.
  Index hidden_size = 128;
  /// Parametrization of Q.
  TransitionOptions transition = Cwy{};
  /// Function sigma of the recurrence.
  Activation activation = Activation::modrelu;
  /// How W is parametrised.
  InputMatrix input_matrix = InputMatrix::free;
  /// Whether h_0 is learned, one vector for all sequences; otherwise it is 0.
  bool learn_initial_state = false;

  static void fields(auto&& visit) {
    using Self = OrthogonalCell;
    visit("hidden_size", &Self::hidden_size, domain::count, "State size N");
    visit("transition", &Self::transition, domain::any, "What makes Q");
    visit("activation", &Self::activation, domain::any, "tanh, relu, abs, modrelu or identity");
    visit("input_matrix", &Self::input_matrix, domain::any,
          "Input matrix: free, or with orthonormal columns: stiefel (T-CWY), own, or matrix for rgd");
    visit("learn_initial_state", &Self::learn_initial_state, domain::added_later,
          "Learn the state in which every sequence starts, instead of zeros");
  }
  /// Number of outputs of a step, whatever the number of inputs.
  Index output_size(Index) const { return hidden_size; }
};

template <class T>
class AffineMap;

/// A recurrence h_t = sigma(Q h_{t-1} + W x_t + b) with an orthogonal Q (docs/math.md, section 1.2). The
/// parameters are
///
/// - PREFIX/reflection_vectors [L, N], or [N, N] as PREFIX/skew_parameters, PREFIX/proxy_matrix,
///   PREFIX/stiefel_matrix or PREFIX/matrix: the transition;
/// - PREFIX/input_weights [N, K], or where W has orthonormal columns PREFIX/input_reflection_vectors [K, N],
///   PREFIX/input_proxy_matrix [N, K] or PREFIX/input_stiefel_matrix [N, K];
/// - PREFIX/bias [N], and PREFIX/modrelu_bias [N] for modrelu;
/// - PREFIX/initial_state [N] where h_0 is learned.
///
/// The state is h [B, N]. `prepare` forms Q, or its factors, and W.
template <class T>
class OrthogonalLayer final : public Layer<T> {
 public:
  /// Numbers of a layer's parameters in the set; -1 for a parameter that it does not have.
  struct Places {
    Index transition = -1,   ///< Number of the transition's parameter.
        input = -1,          ///< Number of the parameter of W.
        bias = -1,           ///< Number of b.
        modrelu_bias = -1,   ///< Number of modrelu's m.
        initial_state = -1;  ///< Number of the learned h_0.
  };
  /// Adds the parameters of a layer to the set and returns their numbers. Throws ValueError for sizes that do
  /// not fit.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                               const OrthogonalCell& options, Index input_size);

  /// Makes a layer and adds its parameters to the set. Throws as `add_parameters`.
  OrthogonalLayer(ParameterSet<T>& parameters, const std::string& prefix, const OrthogonalCell& options,
                  Index input_size, const Execution& execution = {});
  ~OrthogonalLayer() override;

  Index state_count() const override { return 1; }
  bool ends_in_state() const override { return true; }
  Shape state_shape(Index, Index batch) const override { return {batch, options_.hidden_size}; }
  /// Draws W from N(0, 2 / K) (He et al. 2015), or uniform over St(N, K) where it has orthonormal columns, m
  /// from U(-0.01, 0.01) and the transition by its Init. It sets b and a learned h_0 to 0.
  void initialize(std::uint64_t seed) override;
  std::optional<Index> launches(Index length, Index batch) const override;
  LayerDescription describe(Index length, Index batch) const override;
  std::optional<double> orthogonality_error() override;

  /// Options that the layer was made with.
  const OrthogonalCell& options() const { return options_; }
  /// Beginning of the names of the layer's parameters, without a '/' at its end.
  std::string prefix() const { return this->prefix_of(places_.transition); }
  /// The transition Q.
  const Transition<T>& transition() const { return *transition_; }

 private:
  /// The learned h_0, or zeros.
  void run_initial_state(States<T> states) const override;
  void run_prepare() override;
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;
  bool takes_zero_output() const override { return true; }
  TensorView<const T> input_weights() const;

  OrthogonalCell options_;
  Places places_;
  std::unique_ptr<Transition<T>> transition_;
  std::unique_ptr<StiefelPoint<T>> stiefel_;
  std::unique_ptr<AffineMap<T>> input_map_;
  mutable RecordedLoops records_;
  AppliedMatrix<T> applied_;
};

extern template class OrthogonalLayer<float>;
extern template class OrthogonalLayer<double>;

}  // namespace orthornn
