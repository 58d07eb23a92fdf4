#include "orthornn/train/recipe.hpp"

#include <initializer_list>

#include "orthornn/layers/conv_lstm_layer.hpp"
#include "orthornn/layers/conv_neru_layer.hpp"
#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/tasks/language_task.hpp"
#include "orthornn/tasks/task_options.hpp"
#include "orthornn/tasks/video_task.hpp"
#include "orthornn/tasks/words_task.hpp"
#include "support/catch.hpp"

using namespace orthornn;

namespace {

LayerOptions cell_of(TransitionOptions transition) {
  return OrthogonalCell{.transition = std::move(transition)};
}

}  // namespace

TEST_CASE("Longer sequences are trained on for longer", "[recipe]") {
  const auto steps = [](const Task& task) { return recipe_for(task, {OrthogonalCell{}}).steps; };
  CHECK(steps(CopyingTask({.delay = 1})) == 600);
  CHECK(steps(CopyingTask({.delay = 1000})) == 6000);
  CHECK(steps(AddingTask({.length = 2})) == 3008);
  CHECK(steps(AddingTask({.length = 750})) == 12000);
}

TEST_CASE("A free matrix changes less in a step, the longer the sequences are", "[recipe]") {
  const Recipe cwy = recipe_for(AddingTask({.length = 400}), {cell_of(Cwy{})});
  const Recipe of_400 = recipe_for(AddingTask({.length = 400}), {cell_of(Unconstrained{})});
  const Recipe of_800 = recipe_for(AddingTask({.length = 800}), {cell_of(Unconstrained{})});
  CHECK(of_400.learning_rate == 0.4 / 400);
  CHECK(of_800.learning_rate == 0.4 / 800);
  CHECK(of_400.learning_rate_orthogonal / of_400.learning_rate ==
        cwy.learning_rate_orthogonal / cwy.learning_rate);
  CHECK(of_400.warmup_share > 0);
  CHECK(cwy.warmup_share == 0);
}

TEST_CASE("The transition of long copying learns more slowly", "[recipe]") {
  const auto rate = [](Index delay) {
    return recipe_for(CopyingTask({.delay = delay}), {cell_of(Cwy{})}).learning_rate_orthogonal;
  };
  CHECK(rate(100) == rate(380));
  CHECK(rate(780) == rate(380) / 2);
  CHECK(rate(1980) == rate(380) / 5);
  // A free matrix has a limit of its own.
  const Recipe free = recipe_for(CopyingTask({.delay = 1980}), {cell_of(Unconstrained{})});
  CHECK(free.learning_rate == 0.4 / 2000);
  CHECK(free.learning_rate_orthogonal == free.learning_rate / 10);
}

TEST_CASE("A point that is a transition changes less in a step, the longer the sequences are", "[recipe]") {
  const auto rate = [](Index length, const LayerOptions& layer) {
    return recipe_for(AddingTask({.length = length}), {layer}).learning_rate_orthogonal;
  };
  CHECK(rate(10, cell_of(OrthogonalMatrix{})) == 5e-3);
  CHECK(rate(100, cell_of(OrthogonalMatrix{})) == 1e-3);
  CHECK(rate(400, cell_of(OrthogonalMatrix{})) == 0.25e-3);
  CHECK(rate(400, Residual{{cell_of(OrthogonalMatrix{})}}) == 0.25e-3);
  // Beside another transition, the rate is that of the transition.
  CHECK(rate(400, OrthogonalCell{.input_matrix = InputMatrix::matrix}) == rate(400, cell_of(Cwy{})));
  CHECK(rate(400, Residual{{OrthogonalLinear{.matrix = StiefelKind::matrix}}}) == 2e-3);
  // Also in copying, whose transitions have a limit of their own.
  const Recipe copying = recipe_for(CopyingTask({.delay = 1980}), {cell_of(OrthogonalMatrix{})});
  CHECK(copying.learning_rate_orthogonal == 0.1 / 2000);
}

TEST_CASE("Points of a Stiefel manifold have the optimizer that keeps them there", "[recipe]") {
  const CopyingTask copying({.delay = 10});
  CHECK(recipe_for(copying, {cell_of(Cwy{})}).optimizer == "rmsprop");
  CHECK(recipe_for(copying, {cell_of(WeightNormalization{})}).optimizer == "rmsprop");
  const Recipe of_matrix = recipe_for(copying, {cell_of(OrthogonalMatrix{})});
  CHECK(of_matrix.optimizer == "rgd-adam");
  CHECK(of_matrix.learning_rate_orthogonal == of_matrix.learning_rate);
  CHECK(recipe_for(copying, {OrthogonalCell{.input_matrix = InputMatrix::matrix}}).optimizer == "rgd-adam");
  CHECK(has_stiefel_points({Lstm{}, Residual{{OrthogonalLinear{.matrix = StiefelKind::matrix}}}}));
  CHECK(has_stiefel_points({OrthogonalConv{.kernel = StiefelKind::matrix}}));
  CHECK_FALSE(
      has_stiefel_points({OrthogonalLinear{}, OrthogonalConv{.kernel = StiefelKind::weight_normalization}}));
  const VideoTask video{VideoOptions{}};
  CHECK(recipe_for(video, {ConvNeru{}}).optimizer == "adam");
  CHECK(recipe_for(video, {ConvNeru{.hidden_kernel = HiddenKernel::matrix}}).optimizer == "rgd-adam");
  // Also within other layers.
  CHECK(has_stiefel_points({Linear{4}, Residual{{cell_of(OrthogonalMatrix{})}}}));
  CHECK_FALSE(has_stiefel_points({Linear{4}, Residual{{cell_of(Cwy{})}}}));
}

TEST_CASE("Few reflections learn to add as fast as the other weights", "[recipe]") {
  const AddingTask task({.length = 200});
  const auto rates_are_equal = [&](Index reflections, Index hidden) {
    const Recipe recipe = recipe_for(task, {cell_of(Cwy{.reflections = reflections})}, hidden);
    return recipe.learning_rate_orthogonal == recipe.learning_rate;
  };
  CHECK(rates_are_equal(32, 64));
  CHECK_FALSE(rates_are_equal(33, 64));
  CHECK(rates_are_equal(64, 0));  // the recipe's hidden size is 128
  CHECK_FALSE(rates_are_equal(0, 64));
}

TEST_CASE("Gated cells have one rate for all parameters", "[recipe]") {
  for (const LayerOptions& layer : {LayerOptions(Lstm{}), LayerOptions(Gru{})}) {
    const Recipe recipe = recipe_for(CopyingTask({.delay = 10}), {layer});
    CHECK(recipe.optimizer == "adam");
    CHECK(recipe.learning_rate == 2e-3);
    CHECK(recipe.learning_rate_orthogonal == recipe.learning_rate);
  }
}

TEST_CASE("A DeltaProduct network has room for the permutations of a word problem", "[recipe]") {
  const WordsTask words({.group = "S5", .length = 128});
  const Recipe recipe = recipe_for(words, {DeltaProductCell{}});
  CHECK(recipe.delta.key_size == 6);  // five points, and the sign
  CHECK(recipe.delta.learn_initial_state);
  CHECK(recipe.delta.without_values);
  CHECK_FALSE(recipe.gated_mlp);
  CHECK(recipe.batch == 256);
  CHECK(recipe.curriculum_share == 0.6 / 6);  // lengths 2, 4, .. 64 are stages before that of 128

  // Factors with beta of at most 1 cannot reflect.
  const Recipe narrow = recipe_for(words, {DeltaProductCell{.beta_limit = 1}});
  CHECK_FALSE(narrow.delta.without_values);
  CHECK(narrow.delta.beta_offset == 0);
}

TEST_CASE("A DeltaProduct network reflects where a language permutes, and not where it calculates",
          "[recipe]") {
  const auto recipe_of = [](Language language) {
    return recipe_for(LanguageTask({.language = language}), {DeltaProductCell{}});
  };
  CHECK(recipe_of(Language::parity).delta.key_size == 3);
  CHECK(recipe_of(Language::cycle).delta.key_size == 6);
  CHECK(recipe_of(Language::parity).delta.convolution == DeltaProductCell{}.convolution);
  CHECK(recipe_of(Language::even_pairs).delta.convolution == 2);
  CHECK(recipe_of(Language::parity).batch == 128);
  CHECK(recipe_of(Language::modular).gated_mlp);
  CHECK_FALSE(recipe_of(Language::modular).delta.learn_initial_state);
  // Keys of few numbers do not learn with twice the rate (tasks/words/README.md).
  CHECK(recipe_of(Language::parity).learning_rate == 5e-3);
}

TEST_CASE("Frames have a size for each pixel, and reflection vectors of their kernels a higher rate",
          "[recipe]") {
  const auto recipe = [](const LayerOptions& layer) {
    return recipe_for(VideoTask(VideoOptions{}), {layer});
  };
  const Recipe reflections = recipe(ConvNeru{.height = 8, .width = 8});
  CHECK(reflections.hidden_size == 16);
  CHECK(reflections.learning_rate == 2e-2);
  CHECK(reflections.learning_rate_orthogonal == 1e-1);
  for (const LayerOptions& other : {LayerOptions(ConvNeru{.hidden_kernel = HiddenKernel::own}),
                                    LayerOptions(ConvLstm{.height = 8, .width = 8})}) {
    CHECK(recipe(other).hidden_size == 16);
    CHECK(recipe(other).learning_rate == 1e-2);
    CHECK(recipe(other).learning_rate_orthogonal == 1e-2);
  }
}

TEST_CASE("Decoder and encoder of two kinds have the recipe of the one that is orthogonal", "[recipe]") {
  const Recipe both = recipe_for(CopyingTask({.delay = 10}), {LayerOptions(Lstm{}), cell_of(Cwy{})});
  const Recipe orthogonal = recipe_for(CopyingTask({.delay = 10}), {cell_of(Cwy{})});
  CHECK(both.learning_rate == orthogonal.learning_rate);
  CHECK(both.optimizer == orthogonal.optimizer);
}
