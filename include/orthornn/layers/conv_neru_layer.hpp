#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/core/recorded_loops.hpp"
#include "orthornn/layers/layer.hpp"
#include "orthornn/orthogonal/stiefel_point.hpp"

namespace orthornn {

/// What the hidden kernel of a ConvNeruLayer is.
enum class HiddenKernel {
  stiefel,     ///< A point of the Stiefel manifold over q, by T-CWY.
  own,         ///< A point of the Stiefel manifold over q, by OWN.
  matrix,      ///< A point of the Stiefel manifold over q, by a Riemannian optimizer.
  glorot,      ///< Any kernel, drawn from U(-a, a), a^2 = 6 / (2 q^2 f) (Glorot and Bengio, AISTATS 2010).
  orthogonal,  ///< Any kernel, which begins as a point of the Stiefel manifold over q.
  zeros        ///< Any kernel, which begins as 0.
};
/// Whether a hidden kernel is any kernel, and no point of a Stiefel manifold.
constexpr bool is_free(HiddenKernel kernel) { return kernel >= HiddenKernel::glorot; }
template <>
struct Names<HiddenKernel> {
  using enum HiddenKernel;
  static constexpr Choice<HiddenKernel> list[] = {{"stiefel", stiefel},       {"own", own},
                                                  {"matrix", matrix},         {"glorot", glorot},
                                                  {"orthogonal", orthogonal}, {"zeros", zeros}};
};

template <class T>
class ConvNeruLayer;
template <class T>
struct FrameMaps;

/// Options of a ConvNeruLayer.
struct ConvNeru {
  static constexpr const char* name = "convneru";  ///< Name in files and on the command line.
  /// Layer that these options make.
  template <class T>
  using Layer = ConvNeruLayer<T>;
  /// What models ask of these layers before there is one.
  static constexpr LayerTraits traits{.is_recurrence = true};
  /// Channels f of the state, 1 or more.
  Index hidden_size = 16;
  /// Rows H of a frame, 1 or more.
  Index height = 8;
  /// Columns W of a frame, 1 or more.
  Index width = 8;
  /// Rows and columns q of the kernels, an odd number.
  Index kernel_size = 3;
  /// What the hidden kernel is.
  HiddenKernel hidden_kernel = HiddenKernel::stiefel;

  static void fields(auto&& visit) {
    using Self = ConvNeru;
    visit("hidden_size", &Self::hidden_size, domain::count, "Channels f of the state");
    visit("height", &Self::height, domain::count, "Rows H of a frame");
    visit("width", &Self::width, domain::count, "Columns W of a frame");
    visit("kernel_size", &Self::kernel_size, domain::count, "Rows and columns q of the kernels, odd");
    visit("hidden_kernel", &Self::hidden_kernel, domain::any,
          "Hidden kernel: orthonormal as stiefel (T-CWY), own, or matrix for rgd, or free from glorot, "
          "orthogonal or zeros on");
  }
  /// Number H W f of outputs of a step, whatever the number of inputs. Throws ShapeError where it does not
  /// fit in 63 bits.
  Index output_size(Index) const { return Shape{height, width, hidden_size}.count(); }
};

/// A convolutional non-exploding recurrent unit, ConvNERU (docs/math.md, section 9.7; Likhosherstov et al.,
/// "CWY Parametrization", AISTATS 2021): h_t = relu(K_h * h_{t-1} + K_x * x_t + b) for frames x_t [H, W, C]
/// and states h_t [H, W, f], which are the rows of x [T, B, H W C] and y [T, B, H W f]. Convolutions * see
/// zeros around a frame. K_h [q, q, f, f] is Omega / q, where Omega [q^2 f, f] has orthonormal columns, so
/// that the norm of the convolution is at most 1. The parameters are
///
/// - PREFIX/input_kernel [q^2 C, f] and PREFIX/bias [f];
/// - PREFIX/hidden_reflection_vectors [f, q^2 f], which give Omega by T-CWY, PREFIX/hidden_proxy_matrix
///   [q^2 f, f] by OWN, PREFIX/hidden_stiefel_matrix [q^2 f, f], which is Omega, or PREFIX/hidden_kernel
///   [q^2 f, f] where the kernel is free.
template <class T>
class ConvNeruLayer final : public Layer<T> {
 public:
  /// Numbers of a layer's parameters in the set.
  struct Places {
    Index input,  ///< Number of K_x.
        hidden,   ///< Number of the parameter of K_h.
        bias;     ///< Number of b.
  };
  /// Adds the parameters of a layer to the set and returns their numbers. Throws ValueError for sizes below
  /// 1, an even kernel size and inputs that are no frames, ShapeError for more numbers than fit in 63 bits.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                               const ConvNeru& options, Index input_size);

  /// Makes a layer and adds its parameters to the set. Throws as `add_parameters`.
  ConvNeruLayer(ParameterSet<T>& parameters, const std::string& prefix, const ConvNeru& options,
                Index input_size, const Execution& execution = {});
  ~ConvNeruLayer() override;

  Index state_count() const override { return 1; }
  bool ends_in_state() const override { return true; }
  Shape state_shape(Index, Index batch) const override { return {batch, this->output_size()}; }
  /// Draws K_x from N(0, 2 / (q^2 C)) and the hidden kernel as its options say, and sets b to 0.
  void initialize(std::uint64_t seed) override;
  std::optional<Index> launches(Index length, Index batch) const override;
  /// Describes the layer. Throws ValueError where the execution names a rollout that is neither automatic nor
  /// stepwise.
  LayerDescription describe(Index length, Index batch) const override;
  /// Orthogonality error of Omega, the largest entry of |I - Omega^T Omega|; no value for a free kernel.
  std::optional<double> orthogonality_error() override;

 private:
  void run_prepare() override;
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;
  TensorView<const T> hidden_kernel() const;

  ConvNeru options_;
  Execution execution_;
  Places places_;
  std::unique_ptr<FrameMaps<T>> maps_;
  mutable RecordedLoops records_;
  std::unique_ptr<StiefelPoint<T>> stiefel_;  // null for a free kernel
};

extern template class ConvNeruLayer<float>;
extern template class ConvNeruLayer<double>;

}  // namespace orthornn
