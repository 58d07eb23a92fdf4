#pragma once

#include <concepts>
#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/own_kind.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

/// Number N of outputs of a layer of K inputs: what the options' `output_size(K)` says, or K where they have
/// no such function.
template <class Options>
Index output_size_of_kind(const Options& options, Index input_size) {
  if constexpr (requires { options.output_size(input_size); })
    return options.output_size(input_size);
  else
    return input_size;
}

/// The layer of options that name it as `Layer<T>`, with an execution where it takes one.
template <class T, class Options>
std::unique_ptr<Layer<T>> make_layer_of_kind(ParameterSet<T>& parameters, const std::string& prefix,
                                             const Options& options, Index input_size,
                                             const Execution& execution) {
  using Made = typename Options::template Layer<T>;
  if constexpr (std::constructible_from<Made, ParameterSet<T>&, std::string, Options, Index, Execution>)
    return std::make_unique<Made>(parameters, prefix, options, input_size, execution);
  else
    return std::make_unique<Made>(parameters, prefix, options, input_size);
}

/// Options of a layer that a program has beside those of orthornn, without their type. Functions have one
/// overload for each scalar that layers have.
class OwnLayerKind : public OwnOptions<OwnLayerKind> {
 public:
  /// Whether a struct can be options of a layer.
  template <class Options>
  static constexpr bool fits = HasFields<Options>&& requires {
    Options::name;
    typename Options::template Layer<float>;
    typename Options::template Layer<double>;
  };
  template <class Options>
  class Of;

  /// What models ask of the kind before there is a layer.
  virtual LayerTraits traits() const = 0;
  /// Number of outputs of a layer with so many inputs.
  virtual Index output_size(Index input_size) const = 0;
  /// Adds the parameters of a layer. Throws as the layer's constructor, and ValueError for a field outside
  /// its domain.
  virtual void add_parameters(ParameterSet<float>& parameters, const std::string& prefix,
                              Index input_size) const = 0;
  /// Adds the parameters of a layer of doubles, and throws as for floats.
  virtual void add_parameters(ParameterSet<double>& parameters, const std::string& prefix,
                              Index input_size) const = 0;
  /// Makes a layer, which adds its parameters. Throws as the layer's constructor.
  virtual std::unique_ptr<Layer<float>> make(ParameterSet<float>& parameters, const std::string& prefix,
                                             Index input_size, const Execution& execution) const = 0;
  /// Makes a layer of doubles, and throws as for floats.
  virtual std::unique_ptr<Layer<double>> make(ParameterSet<double>& parameters, const std::string& prefix,
                                              Index input_size, const Execution& execution) const = 0;
};

template <class Options>
class OwnLayerKind::Of final : public OwnOptionsOf<OwnLayerKind, Options> {
 public:
  using OwnOptionsOf<OwnLayerKind, Options>::OwnOptionsOf;

  LayerTraits traits() const override { return layer_traits<Options>(); }
  Index output_size(Index input_size) const override {
    return output_size_of_kind(this->options, input_size);
  }
  void add_parameters(ParameterSet<float>& parameters, const std::string& prefix,
                      Index input_size) const override {
    add(parameters, prefix, input_size);
  }
  void add_parameters(ParameterSet<double>& parameters, const std::string& prefix,
                      Index input_size) const override {
    add(parameters, prefix, input_size);
  }
  std::unique_ptr<Layer<float>> make(ParameterSet<float>& parameters, const std::string& prefix,
                                     Index input_size, const Execution& execution) const override {
    return make_layer_of_kind(parameters, prefix, this->options, input_size, execution);
  }
  std::unique_ptr<Layer<double>> make(ParameterSet<double>& parameters, const std::string& prefix,
                                      Index input_size, const Execution& execution) const override {
    return make_layer_of_kind(parameters, prefix, this->options, input_size, execution);
  }

 private:
  template <class T>
  void add(ParameterSet<T>& parameters, const std::string& prefix, Index input_size) const {
    check_fields<T>(Options::name, this->options);
    using Added = typename Options::template Layer<T>;
    if constexpr (requires { Added::add_parameters(parameters, prefix, this->options, input_size); })
      Added::add_parameters(parameters, prefix, this->options, input_size);
    else
      make_layer_of_kind(parameters, prefix, this->options, input_size, {});
  }
};

/// A layer of a program's own among LayerOptions. The struct that it is made of has what those of orthornn
/// have, such as RmsNorm:
///
///     struct Scale {
///       static constexpr const char* name = "scale";  // in files
///       template <class T>
///       using Layer = ScaleLayer<T>;                  // derives from orthornn::Layer<T>
///       double start = 1;
///       static void fields(auto&& visit) { visit("start", &Scale::start, domain::any, "First factor"); }
///     };
///
/// `Layer<T>` is defined for float and double. Its constructor has the arguments (ParameterSet<T>&, const
/// std::string& prefix, const Scale&, Index input_size), and a const Execution& after them where it wants
/// one. It adds the layer's parameters, and throws ValueError for sizes that do not fit. Before a model is
/// made or read, a layer is made and dropped to learn its parameters; where its constructor takes much
/// memory, the class has a static `add_parameters` with the first four arguments instead.
///
/// On a GPU, parameters and arguments of a layer lie in its memory. A layer for the CPU alone throws
/// DeviceError in its constructor where the execution has another device.
///
/// Where a layer returns another number of entries than it reads, the struct has `Index output_size(Index
/// input_size) const`. Where its LayerTraits differ from their defaults, it has `traits`. A layer that reads
/// later steps has `reads_ahead` among them and is not `is_causal()`; where one is said without the other, no
/// layer is made: ValueError.
using OwnLayer = OwnKind<OwnLayerKind>;

}  // namespace orthornn
