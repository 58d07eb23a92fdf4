#include "orthornn/tasks/recall_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/fields_json.hpp"
#include "orthornn/core/error.hpp"
#include "tasks/batches.hpp"
#include "tasks/count_right.hpp"

namespace orthornn {
namespace {

/// Different symbols first .. first + count - 1, so many as `drawn` has, in random order.
void draw_different(RandomStream& random, Index first, Index count, std::vector<bool>& taken,
                    std::vector<std::int32_t>& drawn) {
  taken.assign(static_cast<std::size_t>(count), false);
  for (std::int32_t& symbol : drawn) {
    std::uint32_t number = 0;
    do {
      number = random.integer(static_cast<std::uint32_t>(count));
    } while (taken[number]);
    taken[number] = true;
    symbol = static_cast<std::int32_t>(first + number);
  }
}

}  // namespace

RecallTask::RecallTask(const RecallOptions& options) : options_(options) {
  check_fields("task recall", options);
  check_batch_size("recall", options.length, options.batch);
  if (options.symbols % 2 != 0 || options.symbols / 2 - 1 < options.keys) {
    throw ValueError(
        fmt::format("task recall: symbols is {}, expected an even number of at least {} for {} keys",
                    options.symbols, 2 * options.keys + 2, options.keys));
  }
  if (options.length % 2 != 0 || options.length / 4 < options.keys) {
    throw ValueError(
        fmt::format("task recall: length is {}, expected an even number of at least {} for {} keys",
                    options.length, 4 * options.keys, options.keys));
  }
}

double RecallTask::baseline_loss() const { return std::log(static_cast<double>(options_.symbols / 2)); }

void RecallTask::training_batch(std::uint64_t step, Batch& batch) const {
  fill(RandomPurpose::training, step * static_cast<std::uint64_t>(options_.batch), options_.batch, batch);
}

Index RecallTask::evaluation_batches(HeldOut) const {
  return (held_out_sequences + options_.batch - 1) / options_.batch;
}

void RecallTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  const Index first = number * options_.batch;
  fill(held_out_stream(set), static_cast<std::uint64_t>(first),
       std::min(options_.batch, held_out_sequences - first), batch);
}

void RecallTask::fill(RandomPurpose purpose, std::uint64_t first, Index count, Batch& batch) const {
  const Index half = options_.symbols / 2, places = options_.length / 2 - options_.keys;
  for (Index place = std::ssize(weights_); place < places; ++place)
    weights_.push_back(std::pow(static_cast<double>(place + 1), -0.99));
  make_on_host(batch, staging_, [&](Batch& host) {
    Tensor<std::int32_t>& symbols = host.integers(batch_names::symbols);
    Tensor<std::int32_t>& classes = host.integers(batch_names::classes);
    symbols.resize({options_.length, count});
    classes.reserve({options_.length, count});
    std::ranges::fill(classes, -1);
    // They keep their memory from batch to batch.
    thread_local std::vector<bool> taken;
    thread_local std::vector<std::int32_t> keys, values;
    thread_local std::vector<double> weights;
    keys.resize(static_cast<std::size_t>(options_.keys));
    values.resize(keys.size());
    for (Index b = 0; b < count; ++b) {
      RandomStream random(options_.seed, purpose, first + static_cast<std::uint64_t>(b));
      draw_different(random, 1, half - 1, taken, keys);
      draw_different(random, half, half, taken, values);
      weights = weights_;
      for (std::size_t pair = 0; pair < keys.size(); ++pair) {
        const auto step = static_cast<Index>(2 * pair);
        symbols(step, b) = keys[pair];
        symbols(step + 1, b) = values[pair];
        // The place where the sum of the weights passes a random share of it; a taken one weighs nothing.
        double left = random.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
        std::size_t place = 0, chosen = 0;
        for (; place < weights.size() && left >= 0; ++place) {
          if (weights[place] == 0) continue;
          chosen = place;
          left -= weights[place];
        }
        weights[chosen] = 0;
        const Index asked = 2 * options_.keys + 2 * static_cast<Index>(chosen);
        symbols(asked, b) = keys[pair];
        classes(asked, b) = values[pair];
      }
    }
  });
}

void RecallTask::count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                               TensorView<double> sums) const {
  const ConstTensorView<std::int32_t> answers = batch.integers(batch_names::classes);
  count_right_steps("outputs of task recall", outputs, answers, options_.symbols, sums[0]);
  count_right_sequences(outputs, answers, sums[1]);
}

std::unique_ptr<Task> RecallTask::with_length(Index length, Index batch) const {
  return task_with_length(options_, length, batch);
}

std::string RecallTask::config() const { return json_object(options_, "task").dump(); }

}  // namespace orthornn
