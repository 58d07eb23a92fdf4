#include "orthornn/nn/beam_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <type_traits>

#include "core/fields_json.hpp"
#include "core/parallel.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// A hypothesis that goes on: `row` is its answer in the generator's batch.
struct Live {
  Hypothesis hypothesis = {};
  Index row = 0;
  std::int32_t last = 0;
  /// Whether it is the one of the greedy search.
  bool greedy = true;
};

/// All of one sequence.
struct Search {
  std::vector<Live> live;
  std::vector<Hypothesis> finished;
};

/// A way to go on from a live hypothesis.
struct Step {
  std::size_t from;
  std::int32_t symbol;
  double log_probability;
};

/// The `count` largest of row [V], the largest first, without the excluded symbols.
std::vector<std::int32_t> largest(const float* row, Index size, Index count,
                                  const std::vector<std::int32_t>& excluded) {
  std::vector<std::int32_t> order;
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return row[a] > row[b] || (row[a] == row[b] && a < b);
  };
  // A heap whose first is the worst of the best so far.
  for (std::int32_t symbol = 0; symbol < size; ++symbol) {
    const bool full = std::ssize(order) == count;
    if (full && !before(symbol, order.front())) continue;
    if (std::ranges::find(excluded, symbol) != excluded.end()) continue;
    if (full) {
      std::ranges::pop_heap(order, before);
      order.pop_back();
    }
    order.push_back(symbol);
    std::ranges::push_heap(order, before);
  }
  std::ranges::sort_heap(order, before);
  return order;
}

class BeamSearch {
 public:
  BeamSearch(const AnswerSymbols& symbols, const BeamSearchOptions& options)
      : symbols_(symbols), options_(options) {}

  Search started(Index row) const {
    Search search;
    search.live.push_back({.row = row, .last = symbols_.begin});
    return search;
  }

  /// Goes on by one symbol. `log_probabilities` [R, V] and `attention` [R, S] have a row for each live
  /// hypothesis, of a sequence of so many live steps.
  void advance(Search& search, TensorView<const float> log_probabilities, TensorView<const float> attention,
               Index source_length) const {
    const Index size = log_probabilities.shape()[1];
    // 1. The best steps of all hypotheses together. The first of a hypothesis' own steps is its greedy one.
    std::vector<Step> steps;
    std::optional<Step> greedy;
    for (std::size_t i = 0; i < search.live.size(); ++i) {
      const Live& live = search.live[i];
      const float* row = log_probabilities.data() + live.row * size;
      for (const std::int32_t symbol : largest(row, size, options_.beam, symbols_.excluded)) {
        steps.push_back({i, symbol, live.hypothesis.log_probability + static_cast<double>(row[symbol])});
        if (live.greedy && !greedy) greedy = steps.back();
      }
    }
    std::ranges::stable_sort(steps, std::ranges::greater(), &Step::log_probability);
    const bool enough = std::ssize(search.finished) >= options_.beam;
    steps.resize(enough ? 0 : std::min(steps.size(), static_cast<std::size_t>(options_.beam)));
    // 2. The greedy search goes on beside them.
    const auto is_greedy = [&](const Step& step) {
      return greedy && step.from == greedy->from && step.symbol == greedy->symbol;
    };
    if (greedy && std::ranges::none_of(steps, is_greedy)) steps.push_back(*greedy);
    // 3. Those that end are finished.
    const Index most_symbols = std::min(options_.most_symbols, 3 * source_length + 10);
    std::vector<Live> next;
    for (const Step& step : steps) {
      const Live& from = search.live[step.from];
      Hypothesis longer = from.hypothesis;
      longer.log_probability = step.log_probability;
      const float* weights = attention.data() + from.row * attention.shape()[1];
      longer.attention.emplace_back(weights, weights + source_length);
      longer.complete = step.symbol == symbols_.end;
      if (!longer.complete) longer.symbols.push_back(step.symbol);
      if (longer.complete || std::ssize(longer.attention) >= most_symbols) {
        search.finished.push_back(scored(std::move(longer)));
      } else {
        next.push_back({std::move(longer), from.row, step.symbol, is_greedy(step)});
      }
    }
    search.live = std::move(next);
  }

  std::vector<Hypothesis> best(Search search) const {
    std::ranges::stable_sort(search.finished, std::ranges::greater(), &Hypothesis::score);
    if (std::ssize(search.finished) > options_.beam)
      search.finished.resize(static_cast<std::size_t>(options_.beam));
    return std::move(search.finished);
  }

 private:
  Hypothesis scored(Hypothesis hypothesis) const {
    const auto length = static_cast<double>(hypothesis.attention.size());
    hypothesis.score = hypothesis.log_probability / std::pow(length, options_.length_penalty);
    return hypothesis;
  }

  const AnswerSymbols& symbols_;
  const BeamSearchOptions& options_;
};

/// On the host, in float.
template <class T>
Tensor<float> on_host(TensorView<const T> x) {
  Tensor<T> host(x.shape());
  copy<T>(x, host);
  if constexpr (std::is_same_v<T, float>) {
    return host;
  } else {
    Tensor<float> result(x.shape());
    std::ranges::copy(host, result.begin());
    return result;
  }
}

}  // namespace

template <class T>
std::vector<std::vector<Hypothesis>> beam_search(EncoderDecoder<T>& model, const Batch& batch,
                                                 const AnswerSymbols& symbols,
                                                 const BeamSearchOptions& options) {
  check_fields("beam search", options);
  if (options.most_symbols < 1) {
    throw ValueError(
        fmt::format("beam search: most_symbols is {}; expected 1 or more", options.most_symbols));
  }
  typename EncoderDecoder<T>::Generator generator(model);
  generator.start(batch);
  const Index count = generator.batch();
  const Index longest = batch.integers(batch_names::source).shape()[0];
  const TensorView<const std::int32_t> given = batch.integers(batch_names::source_lengths);
  Tensor<std::int32_t> lengths(Shape{count});
  std::ranges::fill(lengths, static_cast<std::int32_t>(longest));
  if (!given.empty()) copy<std::int32_t>(given, lengths);
  const BeamSearch beam(symbols, options);
  std::vector<Search> searches;
  for (Index b = 0; b < count; ++b) searches.push_back(beam.started(b));
  while (true) {
    // 1. The rows of the generator that go on, in the order of the sequences.
    std::vector<Index> rows;
    std::vector<std::int32_t> last;
    for (Search& search : searches) {
      for (Live& live : search.live) {
        rows.push_back(live.row);
        last.push_back(live.last);
        live.row = std::ssize(rows) - 1;
      }
    }
    if (rows.empty()) break;
    const bool as_they_are = std::ssize(rows) == generator.batch() && std::ranges::is_sorted(rows) &&
                             std::ranges::adjacent_find(rows) == rows.end();
    if (!as_they_are) generator.select(rows);
    // 2. One more symbol.
    const Tensor<float> log_probabilities =
        on_host<T>(generator.step(TensorView<const std::int32_t>(last.data(), {std::ssize(last)})));
    const Tensor<float> attention = on_host<T>(generator.attention());
    // Threads must not throw, and these allocate.
    std::vector<std::exception_ptr> failures(searches.size());
    parallel_for(count, 1, [&](Index first, Index end) {
      for (auto b = static_cast<std::size_t>(first); b < static_cast<std::size_t>(end); ++b) {
        try {
          beam.advance(searches[b], log_probabilities, attention, lengths(static_cast<Index>(b)));
        } catch (...) {
          failures[b] = std::current_exception();
        }
      }
    });
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }
  std::vector<std::vector<Hypothesis>> best;
  for (Search& search : searches) best.push_back(beam.best(std::move(search)));
  return best;
}

template std::vector<std::vector<Hypothesis>> beam_search<float>(EncoderDecoder<float>&, const Batch&,
                                                                 const AnswerSymbols&,
                                                                 const BeamSearchOptions&);
template std::vector<std::vector<Hypothesis>> beam_search<double>(EncoderDecoder<double>&, const Batch&,
                                                                  const AnswerSymbols&,
                                                                  const BeamSearchOptions&);

}  // namespace orthornn
