#include "commands/training_defaults.hpp"

#include <algorithm>
#include <bit>

#include "orthornn/tasks/language_task.hpp"
#include "orthornn/tasks/translation_task.hpp"
#include "orthornn/tasks/words_task.hpp"

namespace orthornn::program {
namespace {

/// For tasks whose answers follow from how symbols have permuted that many points. The state of such a
/// network is a learned start that reflections turn: what each of these settings does is measured in
/// tasks/words/README.md. Permutation matrices of the points and one more direction, for the sign, are room
/// enough for the states. Factors that cannot reflect take away from a state, so values must add to it.
void set_for_permutations(Index points, bool reflects, TrainingDefaults& defaults) {
  constexpr Index most = 64;
  defaults.delta = {.heads = 8,
                    .key_size = std::min(points + 1, most),
                    .value_size = 8,
                    .beta_offset = reflects ? 20.0 : 0.0,
                    .vector_activation = VectorActivation::identity,
                    .learn_initial_state = true,
                    .without_values = reflects};
  defaults.no_mlp = true;
  defaults.weight_decay = 0.1;
  TaskDefaults& settings = defaults.task;
  settings.optimizer = "adamw";
  settings.learning_rate = settings.learning_rate_orthogonal = 5e-3;
}

void set_for_words(const WordsTask& task, bool reflects, TrainingDefaults& defaults) {
  set_for_permutations(task.group_words()->group.degree(), reflects, defaults);
  // Lengths 2, 4, .. up to T are stages, of which the last has two fifths of the steps at least.
  const auto last = static_cast<std::uint64_t>(std::max<Index>(task.length(), 2) - 1);
  const auto stages = std::max(static_cast<int>(std::bit_width(last)) - 1, 1);
  defaults.curriculum_share = std::min(0.1, 0.6 / stages);
  defaults.task.batch = 256;
  defaults.task.steps = 5000;
}

/// Arithmetic keeps the defaults of other tasks: reflections alone cannot multiply by 0.
void set_for_language(const LanguageTask& task, bool reflects, TrainingDefaults& defaults) {
  if (const std::optional<GroupWords> words = task.group_words()) {
    set_for_permutations(words->group.degree(), reflects, defaults);
  } else if (task.language() == Language::even_pairs) {
    // The two symbols that a convolution sees say whether they differ, and parity is left.
    set_for_permutations(2, reflects, defaults);
    defaults.delta.convolution = 2;
  }
}

}  // namespace

std::int64_t TrainingDefaults::warmup(std::int64_t steps) const {
  return static_cast<std::int64_t>(warmup_share * static_cast<double>(steps));
}

TrainingDefaults training_defaults(const Task& task, const std::vector<LayerOptions>& cells, Index hidden) {
  TrainingDefaults defaults{.task = task.defaults()};
  TaskDefaults& settings = defaults.task;
  const bool translates = task.name() == TranslationOptions::name;
  // Measured in tools/bench-results/translation.
  if (translates) defaults.activation = Activation::relu;
  const auto is_orthogonal = [](const LayerOptions& cell) {
    return std::holds_alternative<OrthogonalCell>(cell);
  };
  const auto is_free = [](const LayerOptions& cell) {
    const auto* orthogonal = std::get_if<OrthogonalCell>(&cell);
    return orthogonal != nullptr && std::holds_alternative<Unconstrained>(orthogonal->transition);
  };
  if (std::ranges::none_of(cells, is_orthogonal)) {
    // Gates keep the gradients of LSTM and GRU small enough for one rate and any length, norms those of
    // DeltaProduct networks. The rate of translate was found with LSTM and GRU.
    settings.optimizer = "adam";
    if (!translates) settings.learning_rate = settings.learning_rate_orthogonal = 2e-3;
    const auto is_product = [](const LayerOptions& cell) {
      const auto* delta = std::get_if<DeltaProductCell>(&cell);
      return delta != nullptr && delta->factor == DeltaFactorKind::householder;
    };
    const auto reflects = [](const LayerOptions& cell) {
      return std::get<DeltaProductCell>(cell).beta_limit == DeltaProductCell{}.beta_limit;
    };
    if (!std::ranges::all_of(cells, is_product)) return defaults;
    const bool all_reflect = std::ranges::all_of(cells, reflects);
    if (const auto* words = dynamic_cast<const WordsTask*>(&task))
      set_for_words(*words, all_reflect, defaults);
    if (const auto* language = dynamic_cast<const LanguageTask*>(&task))
      set_for_language(*language, all_reflect, defaults);
    return defaults;
  }
  if (std::ranges::any_of(cells, is_free)) {
    // Nothing keeps this matrix orthogonal. A change of it acts on a state as often as a sequence has steps.
    // So the longer the sequences are, the less it may change in one training step.
    const double rate = std::min(settings.learning_rate, 0.4 / static_cast<double>(task.length()));
    settings.learning_rate_orthogonal *= rate / settings.learning_rate;
    settings.learning_rate = rate;
    // The first step of RMSProp is ten times as long as its rate says, and the states overflow.
    settings.optimizer = "adam";
    defaults.warmup_share = 0.1;
  }
  if (hidden == 0) hidden = settings.hidden_size;
  const Index* reflections = reflections_of(cells.front());
  if (reflections != nullptr && *reflections > 0 && 2 * *reflections <= hidden && task.name() == "adding") {
    // N - L eigenvalues are 1, and there the values that are not marked add up over the sequence.
    // Reflections that learn more slowly than the other weights do not get the better of that: with L = N / 4
    // and a tenth of the rate no seed of three solved T = 200, with the whole rate all did in 1,500 to 2,600
    // steps.
    settings.learning_rate_orthogonal = settings.learning_rate;
  }
  return defaults;
}

}  // namespace orthornn::program
