#include "orthornn/nn/beam_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <type_traits>

#include "core/fields_json.hpp"
#include "core/host_copy.hpp"
#include "core/parallel.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// The last symbol of a hypothesis. Hypotheses that began alike share what they began with.
struct Node {
  /// Place of the node before it; -1 for the first symbol.
  Index before;
  std::int32_t symbol;
  /// Place of the first of the attention weights with which the symbol was chosen.
  Index weights;
};

/// A hypothesis that goes on: `row` is its answer in the generator's batch.
struct Live {
  /// Place of its last symbol; -1 before the first.
  Index node = -1;
  Index length = 0;
  double log_probability = 0;
  Index row = 0;
  std::int32_t last = 0;
  /// Whether it is the one of the greedy search.
  bool greedy = true;
};

struct Finished {
  Index node;
  double log_probability;
  double score;
  bool complete;
};

/// All of one sequence, of so many live steps.
struct Search {
  Index source_length;
  std::vector<Live> live;
  std::vector<Finished> finished = {};
  std::vector<Node> nodes = {};
  /// Weights of the source's live steps, of one step of one hypothesis after the other.
  std::vector<float> attention = {};
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

  Search started(Index row, Index source_length) const {
    return {.source_length = source_length, .live = {{.row = row, .last = symbols_.begin}}};
  }

  /// Goes on by one symbol. `log_probabilities` [R, V] and `attention` [R, S] have a row for each live
  /// hypothesis.
  void advance(Search& search, TensorView<const float> log_probabilities,
               TensorView<const float> attention) const {
    const Index size = log_probabilities.shape()[1];
    // 1. The best steps of all hypotheses together. The first of a hypothesis' own steps is its greedy one.
    std::vector<Step> steps;
    std::optional<Step> greedy;
    for (std::size_t i = 0; i < search.live.size(); ++i) {
      const Live& live = search.live[i];
      const float* row = log_probabilities.data() + live.row * size;
      for (const std::int32_t symbol : largest(row, size, options_.beam, symbols_.excluded)) {
        steps.push_back({i, symbol, live.log_probability + static_cast<double>(row[symbol])});
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
    // 3. Those that end are finished. All steps of a hypothesis share its weights.
    const Index most_symbols = std::min(options_.most_symbols, 3 * search.source_length + 10);
    std::vector<Index> weights(search.live.size(), -1);
    std::vector<Live> next;
    for (const Step& step : steps) {
      const Live& from = search.live[step.from];
      if (weights[step.from] < 0) weights[step.from] = add_weights(search, attention[from.row]);
      search.nodes.push_back({from.node, step.symbol, weights[step.from]});
      const Index node = std::ssize(search.nodes) - 1, length = from.length + 1;
      const bool complete = step.symbol == symbols_.end;
      if (complete || length >= most_symbols) {
        const double score =
            step.log_probability / std::pow(static_cast<double>(length), options_.length_penalty);
        search.finished.push_back({node, step.log_probability, score, complete});
      } else {
        next.push_back({.node = node,
                        .length = length,
                        .log_probability = step.log_probability,
                        .row = from.row,
                        .last = step.symbol,
                        .greedy = is_greedy(step)});
      }
    }
    search.live = std::move(next);
  }

  std::vector<Hypothesis> best(Search& search) const {
    std::ranges::stable_sort(search.finished, std::ranges::greater(), &Finished::score);
    if (std::ssize(search.finished) > options_.beam)
      search.finished.resize(static_cast<std::size_t>(options_.beam));
    std::vector<Hypothesis> hypotheses;
    for (const Finished& finished : search.finished) hypotheses.push_back(hypothesis_of(search, finished));
    return hypotheses;
  }

 private:
  /// Appends the weights of the source's live steps; returns the place of the first.
  static Index add_weights(Search& search, TensorView<const float> weights) {
    const Index place = std::ssize(search.attention);
    search.attention.insert(search.attention.end(), weights.begin(), weights.begin() + search.source_length);
    return place;
  }

  /// Its symbols and weights, from the last to the first.
  static Hypothesis hypothesis_of(const Search& search, const Finished& finished) {
    Hypothesis hypothesis{.symbols = {},
                          .log_probability = finished.log_probability,
                          .score = finished.score,
                          .complete = finished.complete,
                          .attention = {}};
    for (Index at = finished.node; at >= 0;) {
      const Node& node = search.nodes[static_cast<std::size_t>(at)];
      if (at != finished.node || !finished.complete) hypothesis.symbols.push_back(node.symbol);
      const auto weights = search.attention.begin() + node.weights;
      hypothesis.attention.emplace_back(weights, weights + search.source_length);
      at = node.before;
    }
    std::ranges::reverse(hypothesis.symbols);
    std::ranges::reverse(hypothesis.attention);
    return hypothesis;
  }

  const AnswerSymbols& symbols_;
  const BeamSearchOptions& options_;
};

/// On the host, in float.
template <class T>
Tensor<float> on_host(TensorView<const T> x) {
  Tensor<T> host = host_copy(x);
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
  typename EncoderDecoder<T>::Generator generator(model);
  return beam_search<T>(generator, batch, symbols, options);
}

template <class T>
std::vector<std::vector<Hypothesis>> beam_search(typename EncoderDecoder<T>::Generator& generator,
                                                 const Batch& batch, const AnswerSymbols& symbols,
                                                 const BeamSearchOptions& options) {
  check_fields("beam search", options);
  if (options.most_symbols < 1) {
    throw ValueError(
        fmt::format("beam search: most_symbols is {}; expected 1 or more", options.most_symbols));
  }
  generator.start(batch);
  const Index count = generator.batch();
  const Index longest = batch.integers(batch_names::source).shape()[0];
  const TensorView<const std::int32_t> given = batch.integers(batch_names::source_lengths);
  Tensor<std::int32_t> lengths(Shape{count});
  std::ranges::fill(lengths, static_cast<std::int32_t>(longest));
  if (!given.empty()) copy<std::int32_t>(given, lengths);
  const BeamSearch beam(symbols, options);
  std::vector<Search> searches;
  for (Index b = 0; b < count; ++b) searches.push_back(beam.started(b, lengths(b)));
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
          beam.advance(searches[b], log_probabilities, attention);
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
  for (Search& search : searches) best.push_back(beam.best(search));
  return best;
}

#define ORTHORNN_INSTANTIATE(T)                                                          \
  template std::vector<std::vector<Hypothesis>> beam_search<T>(                          \
      EncoderDecoder<T>&, const Batch&, const AnswerSymbols&, const BeamSearchOptions&); \
  template std::vector<std::vector<Hypothesis>> beam_search<T>(                          \
      typename EncoderDecoder<T>::Generator&, const Batch&, const AnswerSymbols&, const BeamSearchOptions&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
