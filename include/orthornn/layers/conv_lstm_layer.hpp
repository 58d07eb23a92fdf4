#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/core/recorded_loops.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

template <class T>
class ConvLstmLayer;
template <class T>
struct FrameMaps;

/// Options of a ConvLstmLayer.
struct ConvLstm {
  static constexpr const char* name = "convlstm";  ///< Name in files and on the command line.
  /// Layer that these options make.
  template <class T>
  using Layer = ConvLstmLayer<T>;
  /// What models ask of these layers before there is one.
  static constexpr LayerTraits traits{.is_recurrence = true};
  /// Channels f of each state, 1 or more.
  Index hidden_size = 16;
  /// Rows H of a frame, 1 or more.
  Index height = 8;
  /// Columns W of a frame, 1 or more.
  Index width = 8;
  /// Rows and columns q of the kernels, an odd number.
  Index kernel_size = 3;
  /// Whether the gates also read the cells, each pixel its own.
  bool peepholes = false;

  static void fields(auto&& visit) {
    using Self = ConvLstm;
    visit("hidden_size", &Self::hidden_size, domain::count, "Channels f of each state");
    visit("height", &Self::height, domain::count, "Rows H of a frame");
    visit("width", &Self::width, domain::count, "Columns W of a frame");
    visit("kernel_size", &Self::kernel_size, domain::count, "Rows and columns q of the kernels, odd");
    visit("peepholes", &Self::peepholes, domain::any, "Gates read the cells, with a weight for each pixel");
  }
  /// Number H W f of outputs of a step, whatever the number of inputs. Throws ShapeError where it does not
  /// fit in 63 bits.
  Index output_size(Index) const { return Shape{height, width, hidden_size}.count(); }
};

/// A convolutional LSTM of frames (docs/math.md, section 9.8; Shi et al., "Convolutional LSTM network",
/// NeurIPS 2015). The input and the output are frames as in ConvNeruLayer; the states h and c are frames
/// [H, W, f]. With one block of f channels for each gate,
///
///     i, f, g, o = sigma, sigma, tanh, sigma of K_x * x_t + K_h * h_{t-1} + b
///     c_t = f c_{t-1} + i g
///     h_t = o tanh(c_t)
///
/// With peepholes w_i c_{t-1}, w_f c_{t-1} and w_o c_t are added to the arguments of i, f and o. The
/// parameters are PREFIX/input_kernel [q^2 C, 4 f], PREFIX/hidden_kernel [q^2 f, 4 f], PREFIX/bias [4 f], and
/// PREFIX/peepholes [3, H W f]: w_i, w_f, w_o.
template <class T>
class ConvLstmLayer final : public Layer<T> {
 public:
  /// Numbers of a layer's parameters in the set.
  struct Places {
    Index input,         ///< Number of K_x.
        hidden,          ///< Number of K_h.
        bias,            ///< Number of b.
        peepholes = -1;  ///< Number of w, or -1 for none.
  };
  /// Adds the parameters of a layer to the set and returns their numbers. Throws ValueError for sizes below
  /// 1, an even kernel size and inputs that are no frames, ShapeError for more numbers than fit in 63 bits.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                               const ConvLstm& options, Index input_size);

  /// Makes a layer and adds its parameters to the set. Throws as `add_parameters`.
  ConvLstmLayer(ParameterSet<T>& parameters, const std::string& prefix, const ConvLstm& options,
                Index input_size, const Execution& execution = {});
  ~ConvLstmLayer() override;

  Index state_count() const override { return 2; }
  bool ends_in_state() const override { return true; }
  Shape state_shape(Index, Index batch) const override { return {batch, this->output_size()}; }
  /// Draws the kernels from U(-a, a) with a = 1 / sqrt(q^2 f). Sets b to 1 for the gates f and to 0 for the
  /// others, and the peepholes to 0.
  void initialize(std::uint64_t seed) override;
  std::optional<Index> launches(Index length, Index batch) const override;
  /// Describes the layer. Throws ValueError where the execution names a rollout that is neither automatic nor
  /// stepwise.
  LayerDescription describe(Index length, Index batch) const override;

 private:
  struct Rollout;

  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;
  TensorView<const std::int32_t> lengths_of_pixels(const SequenceInput<T>& input, Saved& scratch) const;

  ConvLstm options_;
  Execution execution_;
  Places places_;
  std::unique_ptr<FrameMaps<T>> maps_;
  mutable RecordedLoops records_;
};

extern template class ConvLstmLayer<float>;
extern template class ConvLstmLayer<double>;

}  // namespace orthornn
