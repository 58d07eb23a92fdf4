#pragma once
// Layers of every kind as plain values, and the one place where they become layers.

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/delta_product_layer.hpp"
#include "orthornn/layers/dropout_layer.hpp"
#include "orthornn/layers/gated_mlp_layer.hpp"
#include "orthornn/layers/gru_layer.hpp"
#include "orthornn/layers/linear_layer.hpp"
#include "orthornn/layers/lstm_layer.hpp"
#include "orthornn/layers/orthogonal_layer.hpp"
#include "orthornn/layers/own_layer.hpp"
#include "orthornn/layers/positions_layer.hpp"
#include "orthornn/layers/rms_norm_layer.hpp"

namespace orthornn {

struct LayerOptions;

/// y = x + f(x) for layers f, one on the other (ResidualLayer).
struct Residual {
  static constexpr const char* name = "residual";
  std::vector<LayerOptions> layers;

  static void fields(auto&& visit) {
    visit("layers", &Residual::layers, domain::any, "Layers, one on the other, whose input is added");
  }
};

/// Layers, one on the other, twice: forward and backward in time, side by side (BidirectionalLayer).
struct Bidirectional {
  static constexpr const char* name = "bidirectional";
  std::vector<LayerOptions> layers;

  static void fields(auto&& visit) {
    visit("layers", &Bidirectional::layers, domain::any, "Layers, one on the other, of each direction");
  }
  Index output_size(Index input_size) const;
};

/// A layer of any kind as plain values. To add a kind to orthornn: options with the name of their layer as
/// `Layer`, and a place here. A program registers its own (OwnLayer).
struct LayerOptions : std::variant<OrthogonalCell, Lstm, Gru, DeltaProductCell, Linear, GatedMlp, RmsNorm,
                                   Positions, Dropout, Residual, Bidirectional, OwnLayer> {
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

/// What may be nested in one another: model files have a depth of JSON that is bounded.
inline constexpr int deepest_nesting = 8;
/// Layers that a model may have, where those of a bidirectional one count twice: a file of a few bytes must
/// not ask for millions.
inline constexpr Index most_layers = 1024;
/// Throws ValueError for more, with those within others.
void check_layer_count(const std::vector<LayerOptions>& layers);

/// N of a layer of K inputs. Throws ShapeError where it does not fit in 63 bits.
Index output_size_of(const LayerOptions& options, Index input_size);
/// Of layers one on the other.
Index output_size_of(const std::vector<LayerOptions>& layers, Index input_size);

/// L of a product of reflections, 0 for N; nullptr for other layers, and for layers made of others.
const Index* reflections_of(const LayerOptions& options);

/// Calls visit(layer) for all layers and those within them, the outer one first.
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

/// Whether such a layer takes symbols in place of vectors.
bool reads_symbols(const LayerOptions& options);

/// Whether such a layer, by itself, carries states from step to step.
bool is_recurrence(const LayerOptions& options);

/// Whether one of these layers, or within them, draws at random in training.
bool draws_noise(const std::vector<LayerOptions>& layers);

/// Adds the parameters of such a layer to the set, without memory for a layer. Those of layers within others
/// are PREFIX/0/.., PREFIX/1/.., or PREFIX/forward/0/.. and PREFIX/backward/0/... Throws ValueError for sizes
/// that do not fit, for containers of no layer and for a nesting deeper than `deepest_nesting`; ShapeError
/// for more numbers than fit in 63 bits; ValueError for an own kind that is not registered.
template <class T>
void add_layer_parameters(ParameterSet<T>& parameters, const std::string& prefix, const LayerOptions& options,
                          Index input_size);

/// Throws as `add_layer_parameters`.
template <class T>
std::unique_ptr<Layer<T>> make_layer(ParameterSet<T>& parameters, const std::string& prefix,
                                     const LayerOptions& options, Index input_size,
                                     const Execution& execution = {});

/// The same for layers one on the other, as one layer. Their parameters are PREFIX/0/.., PREFIX/1/... Throws
/// ValueError also for no layer and for more than `most_layers`.
template <class T>
void add_stack_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                          const std::vector<LayerOptions>& layers, Index input_size);
template <class T>
std::unique_ptr<Layer<T>> make_stack(ParameterSet<T>& parameters, const std::string& prefix,
                                     const std::vector<LayerOptions>& layers, Index input_size,
                                     const Execution& execution = {});

}  // namespace orthornn
