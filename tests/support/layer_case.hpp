#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "orthornn/layers/layer.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {

/// One tensor for each state of a layer, as a layer takes them.
template <class T>
std::vector<TensorView<T>> views_of(std::vector<Tensor<T>>& states) {
  return {states.begin(), states.end()};
}
template <class T>
std::vector<TensorView<const T>> const_views_of(const std::vector<Tensor<T>>& states) {
  return {states.begin(), states.end()};
}

/// A layer with its parameters, and everything that goes into a forward and a backward of it, drawn at random
/// on the host.
template <class T>
struct LayerCase {
  ParameterSet<T> parameters;
  std::unique_ptr<Layer<T>> layer;
  Device device;
  Index length, batch;
  Tensor<T> x;                   // [T, B, K]
  Tensor<std::int32_t> symbols;  // [T, B], read where x is empty
  Tensor<std::int32_t> lengths;  // [B] or empty
  Tensor<std::uint64_t> noise;   // [1] or empty
  std::vector<Tensor<T>> start, d_last;
  Tensor<T> dy;  // [T, B, N]

  /// Whether sequences begin in the layer's own states instead of `start`.
  bool own_start = false;
  /// Whether dy stands for 0, whatever it holds.
  bool dy_is_zero = false;

  Tensor<T> y, dx, d_output;
  std::vector<Tensor<T>> last, d_start;
  Saved saved, scratch;

  /// `make(parameters)` returns the layer. Parameters have this deviation.
  template <class Make>
  LayerCase(const Make& make, Index t, Index b, bool from_symbols = false, Device where = Device::cpu(),
            double deviation = 0.4, std::uint64_t seed = 1)
      : layer(make(parameters)), device(where), length(t), batch(b), saved(where), scratch(where) {
    parameters.allocate(device);
    std::uint64_t next = seed;
    const auto normal = [&](const Shape& shape, double size) {
      return normal_tensor<T>(shape, next++, size).copy(device);
    };
    for (Index i = 0; i < static_cast<Index>(parameters.list().size()); ++i)
      copy<T>(normal(parameters.value(i).shape(), deviation), parameters.value(i));
    const Index k = layer->input_size(), n = layer->output_size();
    if (from_symbols) {
      RandomStream random(seed, RandomPurpose::validation);
      Tensor<std::int32_t> drawn(Shape{t, b});
      for (std::int32_t& s : drawn)
        s = static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(k)));
      symbols = drawn.copy(device);
    } else {
      x = normal({t, b, k}, 1);
      dx = Tensor<T>(x.shape(), device);
    }
    dy = normal({t, b, n}, 1);
    y = Tensor<T>(dy.shape(), device);
    d_output = Tensor<T>(dy.shape(), device);
    for (Index i = 0; i < layer->state_count(); ++i) {
      const Shape shape = layer->state_shape(i, b);
      start.push_back(normal(shape, 0.5));
      d_last.push_back(normal(shape, 1));
      last.emplace_back(shape, device);
      d_start.emplace_back(shape, device);
    }
  }
  LayerCase(LayerCase&&) = delete;  // the layer refers to the parameters

  void set_lengths(const std::vector<std::int32_t>& live) {
    Tensor<std::int32_t> here(Shape{batch});
    std::copy(live.begin(), live.end(), here.begin());
    lengths = here.copy(device);
  }
  void set_noise(std::uint64_t key) {
    Tensor<std::uint64_t> here(Shape{1});
    here(0) = key;
    noise = here.copy(device);
  }
  SequenceInput<T> input() const {
    return {.vectors = x.empty() ? TensorView<const T>() : x.view(),
            .symbols = symbols.empty() ? TensorView<const std::int32_t>() : symbols.view(),
            .lengths = lengths,
            .noise = noise};
  }
  std::vector<TensorView<const T>> start_views() const {
    return own_start ? std::vector<TensorView<const T>>() : const_views_of(start);
  }
  void forward() {
    layer->prepare();
    saved.clear();
    copy<T>(layer->forward(input(), start_views(), views_of(last), saved), y);
  }
  /// Allocates nothing, so that what a GPU has recorded holds.
  void backward(Gradients mode = Gradients::overwrite) {
    copy<T>(dy, d_output);
    layer->backward(input(),
                    {.d_output = d_output,
                     .d_output_is_zero = dy_is_zero,
                     .d_last = const_views_of(d_last),
                     .d_input = dx,
                     .d_start = views_of(d_start),
                     .input = mode,
                     .parameters = mode},
                    saved, scratch);
  }
  /// The sum of all outputs and last states, weighed by dy and d_last.
  double loss() {
    forward();
    double sum = inner_product(dy, y);
    for (std::size_t i = 0; i < last.size(); ++i) sum += inner_product(d_last[i], last[i]);
    return sum;
  }
};

/// Every gradient of a case in double on the host against central differences.
inline void check_gradients(LayerCase<double>& c) {
  c.forward();
  c.backward();
  const auto check = [&](const std::string& name, const Tensor<double>& found, TensorView<double> of) {
    INFO("gradient of " << name);
    CHECK(relative_error(found, finite_differences(of, [&] { return c.loss(); })) <=
          tolerance::finite_difference);
  };
  const Tensor<double> gradients = c.parameters.gradients().copy(), dx = c.dx.copy();
  std::vector<Tensor<double>> d_start;
  for (const Tensor<double>& d : c.d_start) d_start.push_back(d.copy());
  if (c.parameters.count() > 0) check("the parameters", gradients, c.parameters.values());
  if (!c.x.empty()) check("the input", dx, c.x);
  for (std::size_t i = 0; !c.own_start && i < d_start.size(); ++i)
    check("state " + std::to_string(i), d_start[i], c.start[i]);
}

/// Two forwards and then two backwards of one layer have the sum of the gradients that each has alone.
inline void check_two_passes(LayerCase<double>& first, LayerCase<double>& second) {
  copy<double>(first.parameters.values(), second.parameters.values());
  first.forward();
  first.backward();
  second.forward();
  second.backward();
  Layer<double>& layer = *first.layer;
  layer.prepare();
  for (LayerCase<double>* c : {&first, &second}) layer.forward(c->input(), c->start_views(), {}, first.saved);
  Tensor<double> dx_second(second.dx.shape()), dx_first(first.dx.shape());
  const auto back = [&](LayerCase<double>& c, Tensor<double>& dx, Gradients mode) {
    Tensor<double> d_output = c.dy.copy();
    layer.backward(
        c.input(),
        {.d_output = d_output, .d_last = const_views_of(c.d_last), .d_input = dx, .parameters = mode},
        first.saved, first.scratch);
  };
  const Tensor<double> alone = first.parameters.gradients().copy();
  back(second, dx_second, Gradients::overwrite);
  CHECK(relative_error(first.parameters.gradients(), second.parameters.gradients()) <=
        tolerance::rounding<double>(first.length * first.batch));
  back(first, dx_first, Gradients::add);
  CHECK(first.saved.size() == 0);
  Tensor<double> sum = alone.copy();
  for (Index i = 0; i < sum.size(); ++i) sum.data()[i] += second.parameters.gradients().data()[i];
  CHECK(relative_error(first.parameters.gradients(), sum) <=
        tolerance::rounding<double>(first.length * first.batch));
  CHECK(relative_error(dx_first, first.dx) <= tolerance::rounding<double>(first.length));
  CHECK(relative_error(dx_second, second.dx) <= tolerance::rounding<double>(first.length));
  // Numbers that are there already may be kept.
  first.forward();
  Tensor<double> before = first.dx.copy();
  first.backward(Gradients::add);
  for (double& d : before) d *= 2;
  CHECK(relative_error(first.dx, before) <= tolerance::rounding<double>(first.length));
}

/// One step at a time, with carried states, gives the bits of the whole, where nothing is drawn.
template <class T>
void check_generation(LayerCase<T>& c) {
  c.forward();
  std::vector<Tensor<T>> state;
  for (const Tensor<T>& s : c.start) state.push_back(s.copy());
  Tensor<T> found(c.y.shape(), c.device);
  for (Index t = 0; t < c.length; ++t) {
    c.saved.clear();
    SequenceInput<T> step;
    if (c.x.empty()) {
      step.symbols = std::as_const(c.symbols).view().slice(t, 1);
    } else {
      step.vectors = std::as_const(c.x).view().slice(t, 1);
    }
    copy<T>(c.layer->forward(step, const_views_of(state), views_of(state), c.saved),
            found.view().slice(t, 1));
  }
  CHECK(equal(found, c.y));
  for (std::size_t i = 0; i < state.size(); ++i) CHECK(equal(state[i], c.last[i]));
}

}  // namespace orthornn::testing
