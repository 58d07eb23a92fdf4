#include "orthornn/tasks/words_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/fields_json.hpp"
#include "core/for_each.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/scalar/sequence_streams.hpp"
#include "pointwise/batches.hpp"
#include "tasks/batches.hpp"
#include "tasks/count_right.hpp"

namespace orthornn {
namespace {

/// Different elements that generate the group, as drawn, from the first draw that does.
std::vector<Index> random_generators(const FiniteGroup& group, Index count, std::uint64_t seed) {
  if (count > group.order()) {
    throw ValueError(fmt::format("task words: {} generators of {}, which has {} elements; expected fewer",
                                 count, group.name(), group.order()));
  }
  // Two random elements generate S<n> or A<n> with a probability of 3/8 or more, and a product of several
  // small groups may need as many elements as it has factors.
  constexpr int most_draws = 100;
  RandomStream stream(seed, RandomPurpose::selection);
  std::vector<Index> elements(static_cast<std::size_t>(group.order()));
  std::iota(elements.begin(), elements.end(), Index{0});
  for (int draw = 0; draw < most_draws; ++draw) {
    shuffle(std::span(elements), stream);
    const std::span chosen = std::span(elements).first(static_cast<std::size_t>(count));
    if (group.is_generated_by(chosen)) return {chosen.begin(), chosen.end()};
  }
  throw ValueError(
      fmt::format("task words: no {} of {} random elements generate {}; expected more --generators", count,
                  group.order(), group.name()));
}

std::vector<Index> elements_of(const FiniteGroup& group, const WordsOptions& options) {
  switch (options.alphabet) {
    case Alphabet::swaps:
      return group.swaps();
    case Alphabet::random:
      return random_generators(group, options.generators, options.seed);
    case Alphabet::all:
      break;
  }
  std::vector<Index> all(static_cast<std::size_t>(group.order()));
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

double entropy(const std::vector<double>& probabilities) {
  double sum = 0;
  for (const double p : probabilities) {
    if (p > 0) sum -= p * std::log(p);
  }
  return sum;
}

void fill(const SequenceStreams& streams, const Tensor<std::int32_t>& products, Index length, Index count,
          Batch& batch) {
  Tensor<std::int32_t>& symbols = batch.integers(batch_names::symbols);
  Tensor<std::int32_t>& classes = batch.integers(batch_names::classes);
  symbols.reserve({length, count});
  classes.reserve({length, count});
  static_assert(FiniteGroup::identity == 0);
  for_each(batch.device(), count,
           pointwise::WordsBatch{.streams = streams,
                                 .products = products.data(),
                                 .alphabet = products.shape()[0],
                                 .elements = products.shape()[1],
                                 .length = length,
                                 .batch = count,
                                 .symbols = symbols.data(),
                                 .classes = classes.data()});
}

}  // namespace

WordsTask::WordsTask(const WordsOptions& options)
    : options_((check_fields("task words", options), options)),
      group_(options.group),
      alphabet_(elements_of(group_, options)) {
  check_batch_size("words", options.length, options.batch);
  if (options.training_samples > 0 && options.training_samples < options.batch) {
    throw ValueError(
        fmt::format("task words: {} training samples do not fill a batch of {}; expected as many at least",
                    options.training_samples, options.batch));
  }
  const Index symbols = std::ssize(alphabet_), order = group_.order();
  if (symbols > most_products / order) {
    throw ValueError(
        fmt::format("task words: {} symbols and the {} elements of {} have {} products, expected at most {}; "
                    "use the alphabet random with at most {} generators, or swaps for a group S<n>",
                    symbols, order, group_.name(), symbols * order, most_products, most_products / order));
  }
  products_.reserve({symbols, order});
  for (Index x = 0; x < symbols; ++x) {
    for (Index y = 0; y < order; ++y)
      products_(x, y) = static_cast<std::int32_t>(group_.product(alphabet_[static_cast<std::size_t>(x)], y));
  }
}

std::optional<Index> WordsTask::batches_per_epoch() const {
  if (options_.training_samples == 0) return std::nullopt;
  return options_.training_samples / options_.batch;
}

double WordsTask::baseline_loss() const {
  const auto order = static_cast<double>(group_.order());
  if (options_.alphabet == Alphabet::all) return std::log(order);
  // The distribution of y_t from that of y_{t-1}, until the entropy has stopped to grow.
  const Index symbols = products_.shape()[0];
  std::vector<double> now(static_cast<std::size_t>(group_.order()));
  now[FiniteGroup::identity] = 1;
  std::vector<double> next(now.size());
  double sum = 0, last = 0;
  constexpr Index enough = 64, most = Index{1} << 27;
  for (Index t = 0, still = 0; t < length(); ++t) {
    std::ranges::fill(next, 0.0);
    for (Index x = 0; x < symbols; ++x) {
      for (Index y = 0; y < group_.order(); ++y)
        next[static_cast<std::size_t>(products_(x, y))] +=
            now[static_cast<std::size_t>(y)] / static_cast<double>(symbols);
    }
    std::swap(now, next);
    const double entropy_now = entropy(now);
    sum += entropy_now;
    still = std::abs(entropy_now - last) < 1e-12 ? still + 1 : 0;
    last = entropy_now;
    if (still == enough || t >= most / products_.size()) {
      sum += last * static_cast<double>(length() - 1 - t);
      break;
    }
  }
  return sum / static_cast<double>(length());
}

bool WordsTask::solved(const Evaluation& evaluation) const {
  return evaluation.metric("sequence_accuracy").value_or(0) >= 0.99;
}

Index WordsTask::length_at(std::uint64_t step) const {
  const auto each = static_cast<std::uint64_t>(options_.curriculum);
  if (each == 0) return options_.length;
  constexpr std::uint64_t most = 40;  // lengths are at most 2^40
  return std::min(options_.length, Index{2} << std::min(step / each, most));
}

void WordsTask::training_batch(std::uint64_t step, Batch& batch) const {
  const auto size = static_cast<std::uint64_t>(options_.batch);
  SequenceStreams streams{.seed = options_.seed, .purpose = RandomPurpose::training, .first = step * size};
  if (const std::optional<Index> batches = batches_per_epoch()) {
    const auto per_epoch = static_cast<std::uint64_t>(*batches);
    streams.first = step % per_epoch * size;
    streams.count = static_cast<std::uint64_t>(options_.training_samples);
    RandomStream draws(options_.seed, RandomPurpose::shuffle, step / per_epoch);
    const auto samples = static_cast<std::uint32_t>(options_.training_samples);
    do {
      streams.factor = 1 + draws.integer(samples);
    } while (std::gcd(streams.factor, streams.count) != 1);
    streams.offset = draws.integer(samples);
  }
  fill(streams, products_on(batch.device()), length_at(step), options_.batch, batch);
}

Index WordsTask::evaluation_batches(HeldOut) const {
  return (held_out_sequences + options_.batch - 1) / options_.batch;
}

void WordsTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  const Index first = number * options_.batch;
  fill({.seed = options_.seed, .purpose = held_out_stream(set), .first = static_cast<std::uint64_t>(first)},
       products_on(batch.device()), options_.length, std::min(options_.batch, held_out_sequences - first),
       batch);
}

const Tensor<std::int32_t>& WordsTask::products_on(Device device) const {
  if (!device.is_cuda()) return products_;
  const auto found = std::ranges::find(on_devices_, device, &OnDevice::device);
  if (found != on_devices_.end()) return found->products;
  return on_devices_.emplace_back(OnDevice{device, products_.copy(device)}).products;
}

void WordsTask::count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                              TensorView<double> sums) const {
  const ConstTensorView<std::int32_t> answers = batch.integers(batch_names::classes);
  count_right_steps("outputs of task words", outputs, answers, group_.order(), sums[0]);
  count_right_sequences(outputs, answers, sums[1]);
}

std::unique_ptr<Task> WordsTask::with_length(Index length, Index batch) const {
  return task_with_length(options_, length, batch);
}

std::string WordsTask::config() const { return json_object(options_, "task").dump(); }

}  // namespace orthornn
