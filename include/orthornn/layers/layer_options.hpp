#pragma once
// Layers of every kind as plain values, and the one place where they become layers.

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/conv_lstm_layer.hpp"
#include "orthornn/layers/conv_neru_layer.hpp"
#include "orthornn/layers/delta_product_layer.hpp"
#include "orthornn/layers/dropout_layer.hpp"
#include "orthornn/layers/gated_mlp_layer.hpp"
#include "orthornn/layers/gru_layer.hpp"
#include "orthornn/layers/linear_layer.hpp"
#include "orthornn/layers/lstm_layer.hpp"
#include "orthornn/layers/orthogonal_conv_layer.hpp"
#include "orthornn/layers/orthogonal_layer.hpp"
#include "orthornn/layers/orthogonal_linear_layer.hpp"
#include "orthornn/layers/own_layer.hpp"
#include "orthornn/layers/positions_layer.hpp"
#include "orthornn/layers/rms_norm_layer.hpp"

namespace orthornn {

struct LayerOptions;

/// Options of a ResidualLayer, y = x + f(x).
struct Residual {
  static constexpr const char* name = "residual";  ///< Name in files.
  /// Layers, one on the other, that make f; at least one.
  std::vector<LayerOptions> layers;

  static void fields(auto&& visit) {
    visit("layers", &Residual::layers, domain::any, "Layers, one on the other, whose input is added");
  }
};

/// Options of a BidirectionalLayer, whose two layers have equal options and parameters of their own.
struct Bidirectional {
  static constexpr const char* name = "bidirectional";  ///< Name in files.
  /// What models ask of these layers before there is one.
  static constexpr LayerTraits traits{.reads_ahead = true};
  /// Layers, one on the other, of each direction; at least one.
  std::vector<LayerOptions> layers;

  static void fields(auto&& visit) {
    visit("layers", &Bidirectional::layers, domain::any, "Layers, one on the other, of each direction");
  }
  /// Number of outputs of a step, twice that of the layers. Throws ShapeError where it does not fit in 63
  /// bits.
  Index output_size(Index input_size) const;
};

/// Options of a layer of any kind. To add a kind to orthornn, write options with the name of their layer as
/// `Layer`, and add them here. A program registers its own kinds (OwnLayer).
struct LayerOptions
    : std::variant<OrthogonalCell, Lstm, Gru, DeltaProductCell, ConvNeru, ConvLstm, Linear, OrthogonalLinear,
                   OrthogonalConv, GatedMlp, RmsNorm, Positions, Dropout, Residual, Bidirectional, OwnLayer> {
  using variant::variant;
};

/// Makes a kind known by its name to model files, and to `names_of` and `parse` of LayerOptions. It holds for
/// the whole program. Call it in `main`, before models are made or read by any thread; the same kind again
/// changes nothing. Throws ValueError for a name that another layer has.
void register_layer(const OwnLayer& defaults);
template <class Options>
void register_layer() {
  static_assert(!derives_from_alternative<Options>(std::type_identity<LayerOptions::variant>()),
                "an own kind does not derive from the options of a kind of orthornn");
  register_layer(OwnLayer(Options{}));
}

/// Largest depth of layers within layers: the JSON of model files has a bounded depth.
inline constexpr int deepest_nesting = 8;
/// Largest number of layers of a model, where the layers of a bidirectional one count twice. A file of a few
/// bytes must not ask for millions.
inline constexpr Index most_layers = 1024;
/// Throws ValueError for more layers than `most_layers`, inner layers included.
void check_layer_count(const std::vector<LayerOptions>& layers);

/// Number N of outputs of a layer of K inputs. Throws ShapeError where it does not fit in 63 bits.
Index output_size_of(const LayerOptions& options, Index input_size);
/// Number of outputs of layers, one on the other, of which the first has K inputs. Throws ShapeError where it
/// does not fit in 63 bits.
Index output_size_of(const std::vector<LayerOptions>& layers, Index input_size);

/// Address of the number L of reflections, where 0 stands for N; nullptr for a layer that is not orthogonal
/// or has no reflections, and for layers made of others.
const Index* reflections_of(const LayerOptions& options);

/// Number of pixels of the frames that a layer returns; 0 for a layer of other vectors.
Index pixels_of(const LayerOptions& options);

/// Calls visit(layer) for all layers and their inner layers, the outer layer first.
template <class Layers, class Visit>
void each_layer(Layers& layers, const Visit& visit) {
  for (auto& layer : layers) {
    visit(layer);
    std::visit(
        [&](auto& chosen) {
          if constexpr (requires { chosen.layers; }) each_layer(chosen.layers, visit);
        },
        layer);
  }
}

/// Whether a layer of these options takes symbols in place of vectors.
bool reads_symbols(const LayerOptions& options);

/// Whether a layer of these options carries states from step to step, apart from its inner layers.
bool is_recurrence(const LayerOptions& options);

/// Whether one of these layers or of their inner layers draws random numbers in training.
bool draws_noise(const std::vector<LayerOptions>& layers);

/// Whether an output of one of these layers or of their inner layers depends on later steps.
bool reads_ahead(const std::vector<LayerOptions>& layers);

/// Adds the parameters of a layer to the set, without making the layer. Parameters of inner layers are named
/// PREFIX/0/.., PREFIX/1/.., or PREFIX/forward/0/.. and PREFIX/backward/0/.., and so on. Throws ValueError
/// for sizes that do not fit, for containers of no layer, for more than `most_layers` layers, for a nesting
/// deeper than `deepest_nesting` and for an own kind that is not registered; ShapeError for more numbers than
/// fit in 63 bits.
template <class T>
void add_layer_parameters(ParameterSet<T>& parameters, const std::string& prefix, const LayerOptions& options,
                          Index input_size);

/// Makes a layer of any kind, with its inner layers, and adds its parameters to the set. Throws as
/// `add_layer_parameters`.
template <class T>
std::unique_ptr<Layer<T>> make_layer(ParameterSet<T>& parameters, const std::string& prefix,
                                     const LayerOptions& options, Index input_size,
                                     const Execution& execution = {});

/// Adds the parameters of layers, one on the other, to the set, without making the layers. The parameters are
/// named PREFIX/0/.., PREFIX/1/.., and so on. Throws as `add_layer_parameters`, and ValueError for no layer.
template <class T>
void add_stack_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                          const std::vector<LayerOptions>& layers, Index input_size);
/// Makes layers, one on the other, as one layer, and adds their parameters to the set. Throws as
/// `add_stack_parameters`.
template <class T>
std::unique_ptr<Layer<T>> make_stack(ParameterSet<T>& parameters, const std::string& prefix,
                                     const std::vector<LayerOptions>& layers, Index input_size,
                                     const Execution& execution = {});

}  // namespace orthornn
