#include "bench/bench_cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "bench/benchmark.hpp"
#include "support/reflection_count.hpp"

namespace orthornn::program {
namespace {

/// With reflection vectors of the papers' benchmarks.
BenchCell transition_cell(std::string name, std::string title, TransitionOptions options) {
  std::visit(
      [](auto& own) {
        if constexpr (requires { own.reflections; }) own.init = Init::normal;
      },
      options);
  return {std::move(name), std::move(title), std::move(options)};
}

struct TitleOf {
  std::string operator()(const auto& options) const { return options.title; }
  std::string operator()(const OwnTransition& options) const { return options.name; }
};

std::vector<BenchCell> all_bench_cells() {
  std::vector<BenchCell> cells;
  for (const auto& [name, options] : Names<TransitionOptions>::list) {
    cells.push_back(transition_cell(name, std::visit(TitleOf{}, options), options));
    if (std::holds_alternative<Cwy>(options)) {
      cells.push_back(transition_cell("cwy-dense", "", Cwy{.form = ReflectionForm::dense}));
      cells.push_back(transition_cell("cwy-factored", "", Cwy{.form = ReflectionForm::factored}));
    }
    if (std::holds_alternative<HouseholderProduct>(options)) {
      cells.push_back(transition_cell("householder-rank-one", "sequential Householder, rank-one updates",
                                      HouseholderProduct{.rank_one_updates = true}));
    }
  }
  cells.push_back({Lstm::name, "LSTM", WholeLayer{Lstm{}, 4}});
  cells.push_back({Gru::name, "GRU", WholeLayer{Gru{}, 3}});
  if (has_cudnn) {
    cells.push_back({"cudnn-tanh", "cuDNN tanh RNN, unconstrained", CudnnLayer::tanh});
    cells.push_back({"cudnn-lstm", "cuDNN LSTM", CudnnLayer::lstm});
    cells.push_back({"cudnn-gru", "cuDNN GRU", CudnnLayer::gru});
  }
  return cells;
}

}  // namespace

const std::vector<BenchCell>& bench_cells() {
  static const std::vector<BenchCell> cells = all_bench_cells();
  return cells;
}

const BenchCell& bench_cell(std::string_view name) {
  return *std::ranges::find(bench_cells(), name, &BenchCell::name);
}

std::vector<Index> reflections_at(const std::vector<std::string>& texts, Index hidden, AboveN above) {
  std::vector<Index> counts;
  for (const std::string& text : texts) {
    if (const std::optional<Index> count = ReflectionCount::parse(text)->at(hidden)) {
      counts.push_back(*count);
    } else if (above == AboveN::is_refused) {
      throw UsageError(fmt::format("--reflections {} is more than --hidden {}", text, hidden));
    }
  }
  return each_once(counts);
}

TransitionOptions SizedCell::transition() const {
  auto options = std::get<TransitionOptions>(cell.kind);
  if (Index* count = reflections_of(options)) *count = reflections;
  return options;
}

std::vector<SizedCell> sized_cells(const std::vector<std::string>& names, const std::vector<Index>& hidden,
                                   const std::vector<std::string>& reflections, AboveN above) {
  std::vector<SizedCell> sized;
  for (const Index n : hidden) {
    for (const std::string& name : names) {
      const BenchCell& cell = bench_cell(name);
      const std::vector<Index> counts =
          cell.has_reflections() ? reflections_at(reflections, n, above) : std::vector<Index>{0};
      for (const Index count : counts) sized.push_back({cell, n, count});
    }
  }
  return sized;
}

Json gains_of_cwy(const Json& rows, const char* name) {
  Json gains = Json::array();
  for (const Json& cwy : rows) {
    if (cwy[name] != Cwy::name) continue;
    for (const Json& other : rows) {
      if (!other[name].get<std::string>().starts_with(HouseholderProduct::name)) continue;
      if (other["hidden"] != cwy["hidden"] || other["reflections"] != cwy["reflections"]) continue;
      gains.push_back({{"over", other[name]},
                       {"hidden", cwy["hidden"]},
                       {"reflections", cwy["reflections"]},
                       {"factor", other["total_ms"].get<double>() / cwy["total_ms"].get<double>()}});
    }
  }
  return gains;
}

}  // namespace orthornn::program
