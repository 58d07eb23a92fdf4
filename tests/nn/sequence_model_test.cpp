#include "orthornn/nn/sequence_model.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/small_batch.hpp"
#include "support/smooth_cell.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

std::vector<ModelOptions> all_model_kinds() {
  std::vector<ModelOptions> kinds;
  const std::vector<OrthogonalCell> one = {smooth_cell(6)};
  const std::vector<OrthogonalCell> stack = {smooth_cell(6, Cwy{.reflections = 2}),
                                             smooth_cell(5, MatrixExponential{}),
                                             smooth_cell(4, HouseholderProduct{})};
  std::vector<OrthogonalCell> learned = stack;
  for (OrthogonalCell& cell : learned) cell.learn_initial_state = true;
  const std::vector<LayerOptions> mixed = {Lstm{4}, smooth_cell(5), Gru{3}};
  const auto as_options = [](const std::vector<OrthogonalCell>& cells) {
    return std::vector<LayerOptions>(cells.begin(), cells.end());
  };
  // The last layer has no state of its own, so the readout of the last step takes its last output.
  const std::vector<LayerOptions> nested = {Gru{3}, Residual{{RmsNorm{}, smooth_cell(3), Linear{3}}},
                                            Linear{4}, RmsNorm{}};
  // It has states, but does not end in one of them.
  const std::vector<LayerOptions> delta = {DeltaProductCell{
      .hidden_size = 3, .heads = 1, .key_size = 6, .value_size = 2, .convolution = 2, .norm_epsilon = 0.5}};
  for (const auto& cells : {as_options(one), as_options(stack), as_options(learned), mixed, nested, delta}) {
    for (const InputOptions& input :
         {InputOptions(DenseInput{3}), InputOptions(OneHot{5}), InputOptions(TokenEmbedding{5, 3})}) {
      kinds.push_back({input, cells, EveryStep{4}, Loss::softmax_cross_entropy});
      kinds.push_back({input, cells, LastStep{4}, Loss::softmax_cross_entropy});
      kinds.push_back({input, cells, LastStep{2}, Loss::mean_squared_error});
      kinds.push_back({input, cells, EveryStep{2}, Loss::mean_squared_error});
    }
  }
  // Frames of 1 x 3 pixels, of which each has two outputs.
  kinds.push_back({DenseInput{3},
                   {ConvNeru{.hidden_size = 2, .height = 1, .width = 3}},
                   EveryPixel{.outputs = 6, .pixels = 3},
                   Loss::absolute_and_squared_error});
  return kinds;
}

}  // namespace

TEST_CASE("gradients of every model are those of finite differences", "[nn][gradient][long]") {
  for (const ModelOptions& options : all_model_kinds()) {
    for (const bool with_lengths : {false, true}) {
      SequenceModel<double> model(Device::cpu(), options, 3);
      Batch batch = batch_for(options, 4, 3);
      if (with_lengths) batch.integers(batch_names::lengths) = mixed_lengths(4, 3);
      const double loss = model.loss_and_gradient(batch).sum;
      CHECK(loss == model.loss(batch).sum);
      const Tensor<double> gradient = model.parameters().gradients().copy();
      const Tensor<double> expected =
          finite_differences(model.parameters().values(), [&] { return model.loss(batch).sum; });
      CAPTURE(options.input.index(), options.readout.index(), options.cells.size(), with_lengths);
      CHECK(relative_error(gradient, expected) < tolerance::finite_difference);
    }
  }
}

TEST_CASE("parameters have the names of the model file", "[nn]") {
  const auto names = [](const ModelOptions& options) {
    const SequenceModel<float> model(Device::cpu(), options);
    std::vector<std::string> result;
    for (const Parameter& p : model.parameters().list()) result.push_back(p.name + " " + to_string(p.shape));
    return result;
  };
  CHECK(names({OneHot{10},
               {OrthogonalCell{.hidden_size = 6, .transition = Cwy{.reflections = 4}}},
               EveryStep{9}}) == std::vector<std::string>{"cell/reflection_vectors [4, 6]",
                                                          "cell/input_weights [6, 10]", "cell/bias [6]",
                                                          "cell/modrelu_bias [6]", "readout/weight [9, 6]",
                                                          "readout/bias [9]"});
  const OrthogonalCell stiefel{.hidden_size = 6,
                               .transition = ScaledCayley{},
                               .activation = Activation::tanh,
                               .input_matrix = InputMatrix::stiefel};
  CHECK(names({TokenEmbedding{7, 3}, {stiefel, smooth_cell(4, Unconstrained{})}, LastStep{2}}) ==
        std::vector<std::string>{"embedding/vectors [7, 3]", "cell0/skew_parameters [6, 6]",
                                 "cell0/input_reflection_vectors [3, 6]", "cell0/bias [6]",
                                 "cell1/matrix [4, 4]", "cell1/input_weights [4, 6]", "cell1/bias [4]",
                                 "readout/weight [2, 4]", "readout/bias [2]"});
}

TEST_CASE("generation gives the numbers of the rollout, bit for bit", "[nn]") {
  for (const ModelOptions& options : all_model_kinds()) {
    if (!std::holds_alternative<EveryStep>(options.readout)) continue;
    for (const Index batch_size : {1, 3, 20}) {
      SequenceModel<float> model(Device::cpu(), options, 5);
      draw_initial_states(model);
      const Batch batch = batch_for(options, 6, batch_size);
      const TensorView<const float> outputs = model.forward(batch);
      Tensor<float> expected(outputs.shape());
      copy<float>(outputs, expected);
      SequenceModel<float>::Generator generator(model, batch_size);
      for (Index t = 0; t < 6; ++t) {
        const TensorView<const float> step = batch.reals(batch_names::features).empty()
                                                 ? generator.step(batch.integers(batch_names::symbols)[t])
                                                 : generator.step(batch.reals(batch_names::features)[t]);
        CAPTURE(t, batch_size, options.input.index(), options.cells.size());
        CHECK(equal(step, expected.view()[t]));
      }
    }
  }
}

TEST_CASE("a sequence in two parts with carried state is the sequence", "[nn]") {
  const ModelOptions options{DenseInput{3}, {smooth_cell(6), smooth_cell(5)}, EveryStep{4}};
  SequenceModel<double> model(Device::cpu(), options, 5);
  const Batch whole = batch_for(options, 8, 3);
  const TensorView<const double> outputs = model.forward(whole);
  Tensor<double> expected(outputs.shape());
  copy<double>(outputs, expected);
  ModelState<double> state;
  for (const Index first : {0, 5}) {
    const Index count = first == 0 ? 5 : 3;
    Batch part;
    part.reals(batch_names::features) = Tensor<float>(Shape{count, 3, 3});
    copy<float>(whole.reals(batch_names::features).slice(first, count), part.reals(batch_names::features));
    CHECK(equal(model.forward(part, first == 0 ? nullptr : &state), expected.view().slice(first, count)));
    model.final_state(state);
  }
}

TEST_CASE("padding beyond a sequence's length changes no loss and no gradient, even where it is NaN",
          "[nn]") {
  const Loss loss = GENERATE(Loss::softmax_cross_entropy, Loss::mean_squared_error);
  const ModelOptions options{DenseInput{3}, {smooth_cell(6)}, EveryStep{4}, loss};
  SequenceModel<double> model(Device::cpu(), options, 5);
  Batch batch = batch_for(options, 6, 3);
  batch.integers(batch_names::lengths) = mixed_lengths(6, 3);
  const double expected_loss = model.loss_and_gradient(batch).sum;
  const Tensor<double> expected = model.parameters().gradients().copy();
  for (Index b = 0; b < 3; ++b) {
    for (Index t = batch.integers(batch_names::lengths)(b); t < 6; ++t) {
      if (!batch.integers(batch_names::classes).empty()) batch.integers(batch_names::classes)(t, b) = 3;
      if (!batch.reals(batch_names::values).empty())
        batch.reals(batch_names::values)(t, b, 2) = std::numeric_limits<float>::quiet_NaN();
    }
  }
  for (Index b = 0; b < 3; ++b) {
    for (Index t = batch.integers(batch_names::lengths)(b); t < 6; ++t)
      batch.reals(batch_names::features)(t, b, 1) = std::numeric_limits<float>::quiet_NaN();
  }
  batch.reals(batch_names::features)(5, 2, 0) = std::numeric_limits<float>::infinity();
  CHECK(model.loss_and_gradient(batch).sum == expected_loss);
  CHECK(equal(model.parameters().gradients(), expected));
}

TEST_CASE("a learned initial state starts every sequence, and has a gradient only where it does", "[nn]") {
  OrthogonalCell cell = smooth_cell(6);
  cell.learn_initial_state = true;
  const ModelOptions options{DenseInput{3}, {cell}, EveryStep{4}};
  SequenceModel<double> model(Device::cpu(), options, 5);
  ParameterSet<double>& parameters = model.parameters();
  const Index place = parameters.find("cell/initial_state");
  for (const double x : parameters.value(place)) CHECK(x == 0);
  for (Index n = 0; n < 6; ++n) parameters.value(place)(n) = 0.1 * static_cast<double>(n + 1);

  const Batch batch = batch_for(options, 4, 3);
  ModelState<double> same;
  same.emplace_back(Shape{3, 6});
  for (Index b = 0; b < 3; ++b) copy<double>(parameters.value(place), same[0].view()[b]);
  const TensorView<const double> given = model.forward(batch, &same);
  Tensor<double> expected(given.shape());
  copy<double>(given, expected);
  CHECK(equal(model.forward(batch), expected));

  // A state of the caller's own leaves the parameter out.
  ParameterSet<double> own;
  OrthogonalLayer<double> layer(own, "cell", cell, 3);
  own.allocate(Device::cpu());
  layer.initialize(1);
  layer.prepare();
  const Tensor<double> x = normal_tensor<double>({4, 3, 3}, 1), d_last = normal_tensor<double>({3, 6}, 2);
  for (const bool from_own : {true, false}) {
    const TensorView<const double> start = same[0], d_end = d_last;
    Saved saved(Device::cpu()), scratch(Device::cpu());
    Tensor<double> d_output(Shape{4, 3, 6});
    layer.forward({.vectors = x}, {&start, from_own ? 0U : 1U}, {}, saved);
    layer.backward({.vectors = x}, {.d_output = d_output, .d_last = {&d_end, 1}}, saved, scratch);
    double largest = 0;
    for (const double d : own.gradient(own.find("cell/initial_state")))
      largest = std::max(largest, std::abs(d));
    CHECK((largest > 0) == from_own);
  }
}

TEST_CASE("a generator refuses what is not one step of its batch", "[nn]") {
  SequenceModel<float> dense(Device::cpu(), {DenseInput{3}, {smooth_cell(6)}, EveryStep{4}});
  SequenceModel<float>::Generator generator(dense, 3);
  CHECK_THROWS_AS(generator.step(normal_tensor<float>({3}, 1).view()), ShapeError);
  CHECK_THROWS_AS(generator.step(normal_tensor<float>({2, 3}, 1).view()), ShapeError);
  CHECK_THROWS_AS(generator.step(Tensor<std::int32_t>(Shape{3}).view()), ValueError);
}

TEST_CASE("the seed decides the initial parameters", "[nn]") {
  const ModelOptions options{
      OneHot{4}, {OrthogonalCell{.hidden_size = 8}, OrthogonalCell{.hidden_size = 8}}, EveryStep{3}};
  SequenceModel<float> a(Device::cpu(), options, 1), b(Device::cpu(), options, 1),
      c(Device::cpu(), options, 2);
  CHECK(equal(a.parameters().values(), b.parameters().values()));
  CHECK_FALSE(equal(a.parameters().values(), c.parameters().values()));
  const auto& parameters = a.parameters();
  CHECK_FALSE(equal(parameters.value(parameters.find("cell0/reflection_vectors")),
                    parameters.value(parameters.find("cell1/reflection_vectors"))));
  CHECK(a.orthogonality_error().value() < 1e-5);
}

TEST_CASE("models refuse what does not fit, naming it", "[nn]") {
  const ModelOptions options{DenseInput{3}, {smooth_cell(6)}, EveryStep{4}};
  SequenceModel<float> model(Device::cpu(), options);
  Batch batch = batch_for(options, 4, 2);
  batch.reals(batch_names::features) = Tensor<float>(Shape{4, 2, 5});
  CHECK_THROWS_WITH(model.forward(batch), contains("[4, 2, 5]") && contains("[4, 2, 3]"));
  batch = batch_for(options, 4, 2);
  batch.integers(batch_names::lengths) = mixed_lengths(4, 3);
  CHECK_THROWS_WITH(model.forward(batch), contains("lengths"));
  batch.integers(batch_names::lengths) = Tensor<std::int32_t>(Shape{2});
  batch.integers(batch_names::lengths)(1) = 5;
  CHECK_THROWS_WITH(model.forward(batch), contains("length 5"));
  const ModelOptions symbols{OneHot{4}, {smooth_cell(6)}, EveryStep{4}};
  SequenceModel<float> reader(Device::cpu(), symbols);
  Batch wrong = batch_for(symbols, 4, 2);
  wrong.integers(batch_names::symbols)(1, 1) = 4;
  CHECK_THROWS_WITH(reader.forward(wrong), contains("symbol 4"));
  CHECK_THROWS_AS(SequenceModel<float>(Device::cpu(), {DenseInput{3}, {}, EveryStep{4}}), ValueError);
  CHECK_THROWS_AS(SequenceModel<float>(Device::cpu(), {DenseInput{3}, {smooth_cell(0)}, EveryStep{4}}),
                  ValueError);
  CHECK_THROWS_AS(SequenceModel<float>(
                      Device::cpu(), {DenseInput{3}, {smooth_cell(4, Cwy{.reflections = 5})}, EveryStep{4}}),
                  ValueError);
}

TEST_CASE("a model names the tensor that its batch does not have", "[nn]") {
  const ModelOptions options{DenseInput{3}, {smooth_cell(6)}, EveryStep{4}};
  SequenceModel<float> model(Device::cpu(), options);
  const Batch good = batch_for(options, 4, 2);
  Batch misnamed;
  misnamed.reals("feature") = good.copy(Device::cpu()).reals(batch_names::features).copy();
  misnamed.integers("labels") = Tensor<std::int32_t>(Shape{4, 2});
  const char* expected = "the batch has no tensor 'features', which is needed; it has 'feature', 'labels'";
  CHECK(error_message<ValueError>([&] { model.forward(misnamed); }) == expected);
  CHECK_THROWS_WITH(model.forward(Batch()),
                    contains("no tensor 'features'") && contains("it has no tensors"));
  // Asked for, and never filled.
  Batch empty;
  empty.reals(batch_names::features);
  CHECK_THROWS_WITH(model.forward(empty), contains("tensor 'features' is empty"));

  Batch without_target;
  without_target.reals(batch_names::features) = good.copy(Device::cpu()).reals(batch_names::features).copy();
  CHECK_NOTHROW(model.forward(without_target));
  CHECK_THROWS_WITH(model.loss(without_target), contains("no tensor 'classes'") && contains("'features'"));
  const ModelOptions regression{DenseInput{3}, {smooth_cell(6)}, LastStep{1}, Loss::mean_squared_error};
  CHECK_THROWS_WITH(SequenceModel<float>(Device::cpu(), regression).loss(without_target),
                    contains("no tensor 'values'"));
  const ModelOptions symbols{OneHot{4}, {smooth_cell(6)}, EveryStep{4}};
  CHECK_THROWS_WITH(SequenceModel<float>(Device::cpu(), symbols).forward(misnamed),
                    contains("no tensor 'symbols'"));
}

TEST_CASE("dropout changes gradients with its key, and no evaluation", "[nn]") {
  const ModelOptions options{
      DenseInput{3}, {Lstm{6}, Dropout{0.5}, smooth_cell(5), Dropout{0.5}}, LastStep{4}};
  SequenceModel<double> model(Device::cpu(), options, 5);
  const Batch batch = batch_for(options, 6, 3);
  const double expected = model.loss(batch).sum;
  const auto gradients = [&](std::uint64_t key) {
    model.set_noise(key);
    model.loss_and_gradient(batch);
    return model.parameters().gradients().copy();
  };
  const Tensor<double> first = gradients(1);
  CHECK_FALSE(equal(gradients(2), first));
  CHECK(equal(gradients(1), first));
  CHECK(model.loss(batch).sum == expected);
}

TEST_CASE("a layer that reads backward allows no generation and no readout of the last step", "[nn]") {
  const std::vector<LayerOptions> both_ways = {Bidirectional{{Gru{3}}}};
  SequenceModel<float> model(Device::cpu(), {DenseInput{3}, both_ways, EveryStep{4}});
  CHECK_THROWS_WITH(SequenceModel<float>::Generator(model, 2), contains("backward in time"));
  for (const LayerOptions& above :
       {LayerOptions(Linear{6}), LayerOptions(RmsNorm{}), LayerOptions(Dropout{})}) {
    CHECK_THROWS_WITH(
        SequenceModel<float>(Device::cpu(), {DenseInput{3}, {both_ways[0], above}, LastStep{4}}),
        contains("backward in time"));
  }
  CHECK_THROWS_WITH(SequenceModel<float>(Device::cpu(), {DenseInput{3}, both_ways, LastStep{4}}),
                    contains("backward in time"));
  // A recurrence above it has seen all steps.
  SequenceModel<float>(Device::cpu(), {DenseInput{3}, {both_ways[0], Gru{2}}, LastStep{4}});
}

TEST_CASE("the model of a task's data has its ends", "[nn]") {
  const SequenceData forecast{.features = 2, .values = 2, .every_step = true, .is_forecast = true};
  CHECK(model_for(forecast, {Gru{3}}).cells.size() == 1);
  const LayerOptions both_ways = Bidirectional{{Gru{3}}};
  CHECK(model_for({.features = 2, .values = 2, .every_step = true}, {both_ways}).cells.size() == 1);
  for (const LayerOptions& ahead : {both_ways, LayerOptions(Residual{{both_ways, Linear{2}}})}) {
    CHECK_THAT(error_message<ValueError>([&] {
                 model_for(forecast, {Gru{2}, ahead});
               }),
               contains("backward in time"));
  }
  const ModelOptions symbols = model_for({.symbols = 7, .classes = 5, .every_step = true}, {Gru{3}});
  CHECK(std::get<OneHot>(symbols.input).symbols == 7);
  CHECK(std::get<EveryStep>(symbols.readout).outputs == 5);
  CHECK(symbols.loss == Loss::softmax_cross_entropy);
  const ModelOptions numbers = model_for({.features = 2, .values = 3}, {Gru{3}});
  CHECK(std::get<DenseInput>(numbers.input).size == 2);
  CHECK(std::get<LastStep>(numbers.readout).outputs == 3);
  CHECK(numbers.loss == Loss::mean_squared_error);
}

TEST_CASE("a model refuses symbols for a layer of vectors, and too many layers", "[nn]") {
  for (const LayerOptions& first :
       {LayerOptions(RmsNorm{}), LayerOptions(Dropout{}), LayerOptions(Residual{{Gru{3}}}),
        LayerOptions(Bidirectional{{RmsNorm{}}})}) {
    CHECK_THROWS_WITH(parameter_layout<float>({OneHot{3}, {first, Gru{3}}, EveryStep{4}}),
                      contains("symbols"));
  }
  CHECK(parameter_layout<float>({OneHot{3}, {Bidirectional{{Linear{3}}}}, EveryStep{4}}).count() > 0);
  // 7 levels double 8 layers to 1024, and are layers themselves.
  LayerOptions nested = Bidirectional{std::vector<LayerOptions>(8, Gru{1})};
  for (int level = 1; level < 7; ++level) nested = Bidirectional{{nested}};
  CHECK_THROWS_WITH(parameter_layout<float>({DenseInput{1}, {nested}, EveryStep{1}}),
                    contains("at most 1024"));
}

namespace {

/// Steps first to last - 1 of a batch of symbols with a class at each step, as a piece.
Batch piece_of(const Batch& batch, Index first, Index last, Index number) {
  Batch piece;
  for (const std::string_view name : {batch_names::symbols, batch_names::classes}) {
    const TensorView<const std::int32_t> all = batch.integers(name);
    Tensor<std::int32_t>& part = piece.integers(name);
    part.reserve({last - first, all.shape()[1]});
    copy<std::int32_t>(all.slice(first, last - first), part.view());
  }
  piece.set_piece(number);
  return piece;
}

const ModelOptions carrying{OneHot{5}, {smooth_cell(6), Lstm{4}}, EveryStep{5}, Loss::softmax_cross_entropy};

}  // namespace

TEST_CASE("pieces of long sequences have the loss of the whole, and a first piece starts anew", "[nn]") {
  SequenceModel<double> model(Device::cpu(), carrying, 3);
  const Batch whole = batch_for(carrying, 7, 3);
  const double expected = model.loss(whole).sum;
  for (int time = 0; time < 2; ++time) {
    double sum = 0;
    for (const auto& [first, last] : {std::pair<Index, Index>{0, 3}, {3, 6}, {6, 7}})
      sum += model.loss(piece_of(whole, first, last, first / 3)).sum;
    CHECK(sum == Approx(expected).epsilon(1e-14));
  }
  // Outputs are those of the whole too.
  Tensor<double> outputs(model.forward(whole).shape());
  copy<double>(model.outputs(), outputs.view());
  for (Index piece = 0; piece < 3; ++piece) {
    const Index first = 3 * piece, last = std::min<Index>(first + 3, 7);
    const TensorView<const double> found = model.forward(piece_of(whole, first, last, piece));
    for (Index t = first; t < last; ++t)
      CHECK(found(t - first, 1, 2) == Approx(outputs(t, 1, 2)).epsilon(1e-14));
  }
  // The states matter: a second piece that starts anew has another loss.
  model.loss(piece_of(whole, 0, 3, 0));
  const double second = model.loss(piece_of(whole, 3, 6, 1)).sum;
  CHECK(std::abs(model.loss(piece_of(whole, 3, 6, 0)).sum - second) > 1e-6);
}

TEST_CASE("gradients of a piece end where it starts", "[nn][gradient]") {
  SequenceModel<double> model(Device::cpu(), carrying, 3);
  const Batch whole = batch_for(carrying, 7, 3);
  model.loss(piece_of(whole, 0, 4, 0));
  std::vector<Tensor<double>> start;
  for (const Tensor<double>& state : model.carried()) start.push_back(state.copy());
  REQUIRE(start.size() == 3);  // h, h, c
  const Batch piece = piece_of(whole, 4, 7, 1);
  model.loss_and_gradient(piece);
  const Tensor<double> gradient = model.parameters().gradients().copy();
  const Tensor<double> expected = finite_differences(model.parameters().values(), [&] {
    model.set_carried(start);
    return model.loss(piece).sum;
  });
  CHECK(relative_error(gradient, expected) < tolerance::finite_difference);
}

TEST_CASE("pieces need states to start in, and layers that read forward", "[nn]") {
  const Batch whole = batch_for(carrying, 7, 3);
  SequenceModel<double> model(Device::cpu(), carrying, 3);
  CHECK_THAT(error_message<ValueError>([&] { model.loss(piece_of(whole, 3, 6, 1)); }),
             contains("no states to start in"));
  ModelOptions backward = carrying;
  backward.cells = {Bidirectional{{Gru{3}}}};
  SequenceModel<double> reads_backward(Device::cpu(), backward, 3);
  CHECK_THAT(error_message<ValueError>([&] { reads_backward.loss(piece_of(whole, 0, 3, 0)); }),
             contains("reads backward"));
}

TEST_CASE("a tensor of lengths that is empty stands for none, even where it has memory", "[nn]") {
  const DeltaProductCell delta{
      .hidden_size = 3, .heads = 1, .key_size = 6, .value_size = 2, .convolution = 2};
  for (const LayerOptions& layer :
       {LayerOptions(delta), LayerOptions(smooth_cell(6)), LayerOptions(Lstm{4})}) {
    const ModelOptions options{OneHot{5}, {layer}, EveryStep{5}, Loss::softmax_cross_entropy};
    SequenceModel<double> model(Device::cpu(), options, 3);
    Batch batch = batch_for(options, 7, 3);
    const double expected = model.loss_and_gradient(batch).sum;
    const Tensor<double> gradient = model.parameters().gradients().copy();
    batch.integers(batch_names::lengths).resize({3});  // three sequences of no steps
    batch.integers(batch_names::lengths).reserve({0});
    CHECK(model.loss_and_gradient(batch).sum == expected);
    CHECK(relative_error(model.parameters().gradients().copy(), gradient) == 0);
  }
}
