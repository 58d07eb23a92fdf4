#include "orthornn/layers/layer_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/register_kind.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/layers/bidirectional_layer.hpp"
#include "orthornn/layers/residual_layer.hpp"
#include "orthornn/layers/stack_layer.hpp"

namespace orthornn {
namespace {

template <class Options>
concept Container = requires(const Options& options) {
  options.layers;
};

/// Layers within one another, the outermost included.
int depth_of(const LayerOptions& options) {
  return std::visit(
      []<class Options>(const Options& chosen) {
        int deepest = 0;
        if constexpr (Container<Options>) {
          for (const LayerOptions& layer : chosen.layers) deepest = std::max(deepest, depth_of(layer));
        }
        return deepest + 1;
      },
      options);
}

/// Layers and those within them, those of both directions; stops counting above `most_layers`.
Index count_of(const std::vector<LayerOptions>& layers) {
  Index count = 0;
  for (const LayerOptions& layer : layers) {
    if (count > most_layers) break;
    count += std::visit(
        []<class Options>(const Options& chosen) -> Index {
          if constexpr (Container<Options>)
            return 1 + (std::is_same_v<Options, Bidirectional> ? 2 : 1) * count_of(chosen.layers);
          return 1;
        },
        layer);
  }
  return count;
}

void check_depth(const std::vector<LayerOptions>& layers) {
  for (const LayerOptions& layer : layers) {
    if (const int depth = depth_of(layer); depth > deepest_nesting)
      throw ValueError(fmt::format("layers nested {} deep; expected at most {}", depth, deepest_nesting));
  }
}

LayerTraits traits_of(const LayerOptions& options) {
  return std::visit(
      []<class Options>(const Options& chosen) {
        if constexpr (IsOwnKind<Options>)
          return chosen->traits();
        else
          return layer_traits<Options>();
      },
      options);
}

/// Goes through options and the layers within them once: it adds the parameters of each layer, and makes the
/// layer where there is an execution.
template <class T>
struct LayerMaker {
  ParameterSet<T>& parameters;
  std::string prefix;
  Index input_size;
  /// Null for parameters alone, which are checked before a layer takes memory.
  const Execution* execution;

  using Made = std::unique_ptr<Layer<T>>;

  template <class Options>
  Made operator()(const Options& options) const {
    if (execution != nullptr) return make_layer_of_kind(parameters, prefix, options, input_size, *execution);
    Options::template Layer<T>::add_parameters(parameters, prefix, options, input_size);
    return nullptr;
  }
  Made operator()(const Linear& options) const {
    if (execution != nullptr)
      return std::make_unique<LinearLayer<T>>(parameters, prefix, input_size, options.outputs, *execution);
    LinearLayer<T>::add_parameters(parameters, prefix, input_size, options.outputs);
    return nullptr;
  }
  Made operator()(const Residual& options) const {
    Made inner = stack_in(prefix, options);
    ResidualLayer<T>::check_sizes(input_size, output_size_of(options.layers, input_size));
    return inner ? std::make_unique<ResidualLayer<T>>(std::move(inner)) : nullptr;
  }
  Made operator()(const Bidirectional& options) const {
    Made forward = stack_in(prefix + "/forward", options);
    Made backward = stack_in(prefix + "/backward", options);
    options.output_size(input_size);
    if (!forward) return nullptr;
    return std::make_unique<BidirectionalLayer<T>>(std::move(forward), std::move(backward));
  }
  Made operator()(const OwnLayer& options) const {
    if (execution == nullptr) {
      check_registered("layer", options);
      options->add_parameters(parameters, prefix, input_size);
      return nullptr;
    }
    Made layer = options->make(parameters, prefix, input_size, *execution);
    if (const Index expected = options->output_size(input_size); layer->output_size() != expected) {
      throw ValueError(fmt::format("{}: its layer returns {} numbers a step, but its options say {}",
                                   options.name, layer->output_size(), expected));
    }
    if (const bool ahead = options->traits().reads_ahead; layer->is_causal() == ahead) {
      throw ValueError(
          fmt::format("{0}: is_causal() of its layer is {1}, and reads_ahead of its traits is {1}; expected "
                      "the opposite: a layer that reads later steps is not causal and has the trait",
                      options.name, ahead));
    }
    return layer;
  }

  /// Layers one on the other. A single layer needs no stack around it.
  Made stack(const std::string& within, const std::vector<LayerOptions>& options) const {
    std::vector<Made> layers;
    Index size = input_size;
    for (std::size_t i = 0; i < options.size(); ++i) {
      const LayerMaker maker{parameters, fmt::format("{}/{}", within, i), size, execution};
      layers.push_back(std::visit(maker, options[i]));
      size = output_size_of(options[i], size);
    }
    if (layers.size() == 1 || execution == nullptr) return std::move(layers[0]);
    return std::make_unique<StackLayer<T>>(std::move(layers));
  }

 private:
  template <class Options>
  Made stack_in(const std::string& within, const Options& options) const {
    if (options.layers.empty())
      throw ValueError(fmt::format("a {} layer of no layers; expected at least one", Options::name));
    return stack(within, options.layers);
  }
};

}  // namespace

void register_layer(const OwnLayer& defaults) { register_kind<LayerOptions>("layer", defaults); }
template const std::vector<OwnLayer>& OwnLayer::registered();

Index Bidirectional::output_size(Index input_size) const {
  return Shape{2, output_size_of(layers, input_size)}.count();
}

Index output_size_of(const LayerOptions& options, Index input_size) {
  return std::visit(
      [&]<class Options>(const Options& chosen) {
        if constexpr (IsOwnKind<Options>)
          return chosen->output_size(input_size);
        else
          return output_size_of_kind(chosen, input_size);
      },
      options);
}

Index output_size_of(const std::vector<LayerOptions>& layers, Index input_size) {
  for (const LayerOptions& layer : layers) input_size = output_size_of(layer, input_size);
  return input_size;
}

void check_layer_count(const std::vector<LayerOptions>& layers) {
  const Index count = count_of(layers);
  if (count > most_layers)
    throw ValueError(fmt::format("a model of {} layers or more; expected at most {}", count, most_layers));
}

bool reads_symbols(const LayerOptions& options) {
  if (const auto* both = std::get_if<Bidirectional>(&options))
    return !both->layers.empty() && reads_symbols(both->layers[0]);
  return traits_of(options).reads_symbols;
}

bool is_recurrence(const LayerOptions& options) { return traits_of(options).is_recurrence; }

const Index* reflections_of(const LayerOptions& options) {
  const auto* orthogonal = std::get_if<OrthogonalCell>(&options);
  return orthogonal == nullptr ? nullptr : reflections_of(orthogonal->transition);
}

Index pixels_of(const LayerOptions& options) {
  return std::visit(
      [](const auto& chosen) -> Index {
        if constexpr (requires { chosen.height, chosen.width; })
          return Shape{chosen.height, chosen.width}.count();
        else
          return 0;
      },
      options);
}

template <class T>
void add_layer_parameters(ParameterSet<T>& parameters, const std::string& prefix, const LayerOptions& options,
                          Index input_size) {
  check_depth({options});
  check_layer_count({options});
  std::visit(LayerMaker<T>{parameters, prefix, input_size, nullptr}, options);
}

template <class T>
std::unique_ptr<Layer<T>> make_layer(ParameterSet<T>& parameters, const std::string& prefix,
                                     const LayerOptions& options, Index input_size,
                                     const Execution& execution) {
  ParameterSet<T> layout;
  add_layer_parameters(layout, prefix, options, input_size);  // the checks, before a layer takes memory
  return std::visit(LayerMaker<T>{parameters, prefix, input_size, &execution}, options);
}

template <class T>
void add_stack_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                          const std::vector<LayerOptions>& layers, Index input_size) {
  if (layers.empty()) throw ValueError(fmt::format("{}: no layers; expected at least one", prefix));
  check_layer_count(layers);
  check_depth(layers);
  LayerMaker<T>{parameters, prefix, input_size, nullptr}.stack(prefix, layers);
}

template <class T>
std::unique_ptr<Layer<T>> make_stack(ParameterSet<T>& parameters, const std::string& prefix,
                                     const std::vector<LayerOptions>& layers, Index input_size,
                                     const Execution& execution) {
  ParameterSet<T> layout;
  add_stack_parameters(layout, prefix, layers, input_size);  // the checks, before a layer takes memory
  return LayerMaker<T>{parameters, prefix, input_size, &execution}.stack(prefix, layers);
}

namespace {

/// Whether one of these layers or of their inner layers has a trait.
bool any_has(const std::vector<LayerOptions>& layers, bool LayerTraits::*trait) {
  bool found = false;
  each_layer(layers, [&](const LayerOptions& layer) { found = found || traits_of(layer).*trait; });
  return found;
}

}  // namespace

bool draws_noise(const std::vector<LayerOptions>& layers) {
  return any_has(layers, &LayerTraits::draws_noise);
}

bool reads_ahead(const std::vector<LayerOptions>& layers) {
  return any_has(layers, &LayerTraits::reads_ahead);
}

#define ORTHORNN_INSTANTIATE(T)                                                                            \
  template void add_layer_parameters<T>(ParameterSet<T>&, const std::string&, const LayerOptions&, Index); \
  template std::unique_ptr<Layer<T>> make_layer<T>(ParameterSet<T>&, const std::string&,                   \
                                                   const LayerOptions&, Index, const Execution&);          \
  template void add_stack_parameters<T>(ParameterSet<T>&, const std::string&,                              \
                                        const std::vector<LayerOptions>&, Index);                          \
  template std::unique_ptr<Layer<T>> make_stack<T>(                                                        \
      ParameterSet<T>&, const std::string&, const std::vector<LayerOptions>&, Index, const Execution&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
