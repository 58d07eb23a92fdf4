#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"
#include "orthornn/orthogonal/stiefel_point.hpp"

namespace orthornn {

template <class T>
class FrameConvolution;
template <class T>
class OrthonormalMatrix;
template <class T>
class OrthogonalConvLayer;

/// Options of an OrthogonalConvLayer.
struct OrthogonalConv {
  static constexpr const char* name = "orthogonal_conv";  ///< Name in files.
  /// Layer that these options make.
  template <class T>
  using Layer = OrthogonalConvLayer<T>;
  /// Channels F that a pixel of the output has; 0 for as many as in the input.
  Index channels = 0;
  /// Rows H of a frame, 1 or more.
  Index height = 8;
  /// Columns W of a frame, 1 or more.
  Index width = 8;
  /// Rows and columns q of the kernel, an odd number.
  Index kernel_size = 3;
  /// What makes the kernel.
  StiefelKind kernel = StiefelKind::truncated_cwy;

  static void fields(auto&& visit) {
    using Self = OrthogonalConv;
    visit("channels", &Self::channels, domain::not_negative,
          "Channels F of a pixel of the output; 0 for as many as in the input");
    visit("height", &Self::height, domain::count, "Rows H of a frame");
    visit("width", &Self::width, domain::count, "Columns W of a frame");
    visit("kernel_size", &Self::kernel_size, domain::count, "Rows and columns q of the kernel, odd");
    visit("kernel", &Self::kernel, domain::any,
          "Orthonormal kernel: stiefel (T-CWY), own, or matrix for rgd");
  }
  /// Number H W F of outputs of a step. Throws ShapeError where it does not fit in 63 bits.
  Index output_size(Index input_size) const {
    return channels > 0 ? Shape{height, width, channels}.count() : input_size;
  }
};

/// A convolution y = K * x + c at every step that enlarges no distance (docs/math.md, section 9.9), for
/// frames x_t [H, W, C] and y_t [H, W, F], which are the rows of x [T, B, H W C] and y [T, B, H W F]. The
/// convolution sees zeros around a frame. K [q, q, C, F] is M / q, where M [q^2 C, F] has orthonormal columns
/// for F <= q^2 C and orthonormal rows for larger F, so that the Lipschitz constant is at most 1. The
/// parameters are
///
/// - PREFIX/reflection_vectors [S, P], which give a point of the Stiefel manifold St(P, S) by T-CWY,
///   PREFIX/proxy_matrix [P, S] by OWN, or PREFIX/stiefel_matrix [P, S], which is the point itself, with P =
///   max(q^2 C, F) and S = min(q^2 C, F). M is the point where F <= q^2 C, and its transpose for larger F;
/// - PREFIX/bias [F], which is c.
///
/// For q = 1 a pixel is mapped by M^T alone. With C <= F the layer then keeps distances, and with C = F it
/// has an inverse. Padding gets an output like any other step. The backward does not read y, so a caller may
/// overwrite it.
template <class T>
class OrthogonalConvLayer final : public Layer<T> {
 public:
  /// Numbers of a layer's parameters in the set.
  struct Places {
    Index kernel,  ///< Number of the parameter of K.
        bias;      ///< Number of c.
  };
  /// Adds the parameters of a layer to the set and returns their numbers. Throws ValueError for sizes below
  /// 1, an even kernel size and inputs that are no frames, ShapeError for more numbers than fit in 63 bits.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                               const OrthogonalConv& options, Index input_size);

  /// Makes a layer and adds its parameters to the set. Throws as `add_parameters`.
  OrthogonalConvLayer(ParameterSet<T>& parameters, const std::string& prefix, const OrthogonalConv& options,
                      Index input_size, const Execution& execution = {});
  ~OrthogonalConvLayer() override;

  /// Draws M uniformly over its Stiefel manifold, for a square M over the matrices of determinant (-1)^F, and
  /// sets c to 0.
  void initialize(std::uint64_t seed) override;
  std::optional<Index> launches(Index length, Index batch) const override;
  LayerDescription describe(Index, Index) const override { return this->description(OrthogonalConv::name); }
  /// Orthogonality error of the point, the largest entry of |I - M^T M| or, for F > q^2 C, of |I - M M^T|.
  std::optional<double> orthogonality_error() override;

  /// Writes the input frames whose outputs are y [.., H W F] to x [.., H W C]: M (y - c) at each pixel, in
  /// the execution's precision. x must not overlap y. Throws ValueError unless q = 1 and C = F, and before
  /// `prepare`; ShapeError where y has no rows of H W F entries or x another shape; DeviceError.
  void inverse(ConstTensorView<T> y, TensorView<T> x) const;
  /// Logarithm of |det| of the map of a frame, which is 0 where M is an orthogonal matrix. Throws ValueError
  /// unless q = 1 and C = F.
  double log_determinant() const;

 private:
  void check_invertible() const;
  void run_prepare() override;
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;

  OrthogonalConv options_;
  Execution execution_;
  Index inputs_, outputs_;  // C, F
  Places places_;
  std::unique_ptr<OrthonormalMatrix<T>> kernel_;
  std::unique_ptr<FrameConvolution<T>> map_;
  mutable Tensor<T> offset_;  // scratch of `inverse`, where there is one
};

extern template class OrthogonalConvLayer<float>;
extern template class OrthogonalConvLayer<double>;

}  // namespace orthornn
