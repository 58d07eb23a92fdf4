#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/layers/layer.hpp"
#include "orthornn/orthogonal/stiefel_point.hpp"

namespace orthornn {

template <class T>
class AffineMap;
template <class T>
class OrthonormalMatrix;
template <class T>
class OrthogonalLinearLayer;

/// Options of an OrthogonalLinearLayer.
struct OrthogonalLinear {
  static constexpr const char* name = "orthogonal_linear";  ///< Name in files.
  /// Layer that these options make.
  template <class T>
  using Layer = OrthogonalLinearLayer<T>;
  /// What models ask of these layers before there is one.
  static constexpr LayerTraits traits{.reads_symbols = true};
  /// Number N of outputs of a step; 0 for as many as inputs.
  Index outputs = 0;
  /// What makes the matrix.
  StiefelKind matrix = StiefelKind::truncated_cwy;

  static void fields(auto&& visit) {
    using Self = OrthogonalLinear;
    visit("outputs", &Self::outputs, domain::not_negative, "Outputs a step; 0 for as many as inputs");
    visit("matrix", &Self::matrix, domain::any,
          "Orthonormal matrix: stiefel (T-CWY), own, or matrix for rgd");
  }
  /// Number of outputs of a step.
  Index output_size(Index input_size) const { return outputs > 0 ? outputs : input_size; }
};

/// An affine map y = R x + c at every step that enlarges no distance (docs/math.md, section 9.9). R [N, K]
/// has orthonormal columns where N >= K, so that the map keeps distances, and orthonormal rows where N < K.
/// The Lipschitz constant is 1 in both cases. The parameters are
///
/// - PREFIX/reflection_vectors [S, P], which give a point of the Stiefel manifold St(P, S) by T-CWY,
///   PREFIX/proxy_matrix [P, S] by OWN, or PREFIX/stiefel_matrix [P, S], which is the point itself, with P =
///   max(N, K) and S = min(N, K). R is the point where N >= K, and its transpose where N < K;
/// - PREFIX/bias [N], which is c.
///
/// Where N = K, the map has an inverse. T-CWY of a square point is a product of N reflections: its
/// determinant is (-1)^N, whatever the parameters. With a matrix that is the point itself all of this holds
/// while the parameter lies on the manifold, of which `orthogonality_error` says how far it is. Padding gets
/// an output like any other step. The backward does not read y, so a caller may overwrite it.
template <class T>
class OrthogonalLinearLayer final : public Layer<T> {
 public:
  /// Numbers of a layer's parameters in the set.
  struct Places {
    Index matrix,  ///< Number of the parameter of R.
        bias;      ///< Number of c.
  };
  /// Adds the parameters of a layer to the set and returns their numbers. Throws ValueError for no inputs and
  /// for options outside their domains, ShapeError for more numbers than fit in 63 bits.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                               const OrthogonalLinear& options, Index input_size);

  /// Makes a layer and adds its parameters to the set. Throws as `add_parameters`.
  OrthogonalLinearLayer(ParameterSet<T>& parameters, const std::string& prefix,
                        const OrthogonalLinear& options, Index input_size, const Execution& execution = {});
  ~OrthogonalLinearLayer() override;

  /// Draws R uniformly over its Stiefel manifold, for N = K over the matrices of determinant (-1)^N, and sets
  /// c to 0.
  void initialize(std::uint64_t seed) override;
  std::optional<Index> launches(Index length, Index batch) const override;
  LayerDescription describe(Index, Index) const override { return this->description(OrthogonalLinear::name); }
  /// Orthogonality error of the point, the largest entry of |I - R^T R| or, where N < K, of |I - R R^T|.
  std::optional<double> orthogonality_error() override;

  /// Writes R^T (y - c) for y [.., N] to x [.., N]: the input whose output is y, in the execution's
  /// precision. x must not overlap y. Throws ValueError where N is not K, and before `prepare`; ShapeError
  /// where y has no rows of N entries or x another shape; DeviceError.
  void inverse(ConstTensorView<T> y, TensorView<T> x) const;
  /// Logarithm of |det R|, which is 0 for every orthogonal matrix. Throws ValueError where N is not K.
  double log_determinant() const;

 private:
  void check_invertible() const;
  void run_prepare() override;
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;

  Execution execution_;
  Places places_;
  std::unique_ptr<OrthonormalMatrix<T>> matrix_;
  std::unique_ptr<AffineMap<T>> map_;
  mutable Tensor<T> offset_;  // scratch of `inverse`, where there is one
};

extern template class OrthogonalLinearLayer<float>;
extern template class OrthogonalLinearLayer<double>;

}  // namespace orthornn
