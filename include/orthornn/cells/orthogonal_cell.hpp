#pragma once

#include <memory>
#include <optional>
#include <string>

#include "orthornn/cells/applied_matrix.hpp"
#include "orthornn/core/execution.hpp"
#include "orthornn/orthogonal/truncated_cwy.hpp"

namespace orthornn {

/// How the input matrix W [N, K] is parametrised: any matrix, or one with orthonormal columns (T-CWY, K <=
/// N).
enum class InputMatrix { free, stiefel };
template <>
struct Names<InputMatrix> {
  using enum InputMatrix;
  static constexpr Choice<InputMatrix> list[] = {{"free", free}, {"stiefel", stiefel}};
};

/// A recurrent cell as plain values.
struct OrthogonalCell {
  Index hidden_size = 128;
  TransitionOptions transition = Cwy{};
  Activation activation = Activation::modrelu;
  InputMatrix input_matrix = InputMatrix::free;
  /// Whether h_0 is learned, one vector for all sequences; else it is 0.
  bool learn_initial_state = false;

  static void fields(auto&& visit) {
    using Self = OrthogonalCell;
    visit("hidden_size", &Self::hidden_size, domain::count, "State size N");
    visit("transition", &Self::transition, domain::any, "What makes Q");
    visit("activation", &Self::activation, domain::any, "tanh, relu, abs, modrelu or identity");
    visit("input_matrix", &Self::input_matrix, domain::any,
          "Input matrix: free, or stiefel for orthonormal columns (T-CWY)");
    visit("learn_initial_state", &Self::learn_initial_state, domain::added_later,
          "Learn the state in which every sequence starts, instead of zeros");
  }
};

/// What a cell reads: real vectors [T, B, K], or symbols [T, B] that stand for unit vectors of K entries.
template <class T>
struct SequenceInput {
  TensorView<const T> vectors;
  TensorView<const std::int32_t> symbols;

  Index length() const { return (vectors.empty() ? symbols.shape() : vectors.shape())[0]; }
  Index batch() const { return (vectors.empty() ? symbols.shape() : vectors.shape())[1]; }
};

template <class T>
class InputProduct;

/// h_t = sigma(Q h_{t-1} + W x_t + b) over sequences, with its parameters in a ParameterSet under a prefix:
///
/// PREFIX/reflection_vectors [L, N], skew_parameters [N, N] or matrix [N, N]: the transition's
/// PREFIX/input_weights [N, K], or input_reflection_vectors [K, N] when W is Stiefel
/// PREFIX/bias [N], and modrelu_bias [N] for modrelu
/// PREFIX/initial_state [N] where h_0 is learned
///
/// `prepare`, `forward`, `backward` in this order; the states stay inside between the last two. Buffers grow
/// to the largest T and B seen and then no call allocates. Everything lies on the execution's device, the
/// parameters and what is passed included; on a GPU no call waits, and what a kernel finds wrong with
/// symbols, lengths or parameters is thrown when somebody does (`synchronize`).
template <class T>
class RecurrentLayer {
 public:
  /// Where a layer's parameters are in the set; -1 for one that it does not have.
  struct Places {
    Index transition = -1, input = -1, bias = -1, modrelu_bias = -1, initial_state = -1;
  };
  /// Adds the parameters of such a layer to the set. Throws ValueError for sizes that do not fit.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                               const OrthogonalCell& options, Index input_size);

  /// Adds its parameters to the set. Throws as `add_parameters`.
  RecurrentLayer(ParameterSet<T>& parameters, const std::string& prefix, const OrthogonalCell& options,
                 Index input_size, const Execution& execution = {});
  ~RecurrentLayer();

  /// Draws W from N(0, 2 / K) (He et al. 2015) or Haar, m from U(-0.01, 0.01) and the transition by its Init;
  /// b and a learned h_0 are 0.
  void initialize(std::uint64_t seed);
  /// Forms Q (or its factors) and W from the parameters as they are now.
  void prepare();

  /// h0 [B, N] <- the state in which every sequence starts by itself: the learned one, or zeros.
  void initial_state(TensorView<T> h0) const;

  /// h0 [B, N], or empty for `initial_state`; lengths [B], or empty. Throws ShapeError, and ValueError for a
  /// symbol outside 0 .. K - 1 or a length outside 0 .. T.
  void forward(const SequenceInput<T>& input, ConstTensorView<T> h0, TensorView<const std::int32_t> lengths);
  /// [T, B, N]; zeros beyond a sequence's length.
  TensorView<const T> outputs() const { return states_.view().slice(1, states_.shape()[0] - 1); }
  /// [B, N]
  TensorView<const T> last_state() const { return last_state_; }

  /// Where the gradient with respect to `outputs` is to be put before `backward`, [T, B, N].
  TensorView<T> d_outputs();
  /// The same input and lengths as in `forward`, values beyond a sequence's length finite; d_h_last [B, N] or
  /// empty. Overwrites the gradients of all its parameters. d_input [T, B, K] is overwritten unless empty.
  void backward(const SequenceInput<T>& input, ConstTensorView<T> d_h_last,
                TensorView<const std::int32_t> lengths, TensorView<T> d_input);
  /// Gradient with respect to h0 [B, N], after `backward`.
  TensorView<const T> d_initial_state() const { return d_initial_state_; }

  /// max |I - A^T A| of the AppliedMatrix A, after `prepare`. Waits for a GPU; allocates nothing there after
  /// the first call.
  double orthogonality_error();

  const OrthogonalCell& options() const { return options_; }
  Index input_size() const { return input_size_; }
  const Transition<T>& transition() const { return *transition_; }

 private:
  void check_input(const SequenceInput<T>& input, TensorView<const std::int32_t> lengths) const;
  TensorView<const T> input_weights() const;

  ParameterSet<T>& parameters_;
  OrthogonalCell options_;
  Index input_size_;
  Places places_;
  std::unique_ptr<Transition<T>> transition_;
  std::optional<TruncatedCwy<T>> stiefel_;
  std::unique_ptr<InputProduct<T>> input_product_;
  bool prepared_ = false;
  /// In the last forward.
  bool starts_from_own_state_ = true;

  RolloutCache<T> cache_;
  Tensor<T> states_;
  Tensor<T> last_state_;
  Tensor<T> d_states_;
  Tensor<T> d_initial_state_;
  Tensor<T> d_input_weights_;
  AppliedMatrix<T> applied_;
};

extern template class RecurrentLayer<float>;
extern template class RecurrentLayer<double>;

}  // namespace orthornn
