// bench convergence: the rate at which gradients fall under the convergence theorem of the CWY paper.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_cells.hpp"
#include "bench/benchmark.hpp"
#include "commands/output_file.hpp"
#include "core/fields_json.hpp"
#include "linalg/gemm.hpp"  // not public
#include "orthornn/io/atomic_file.hpp"
#include "orthornn/orthornn.hpp"
#include "pages/html_page.hpp"
#include "pages/line_fit.hpp"
#include "support/number_text.hpp"

namespace orthornn::program {
namespace {

struct ConvergenceBenchmark {
  static constexpr const char* name = "convergence";
  static constexpr const char* help =
      "Stochastic descent with rates k^-1/2 on CWY: how fast the least gradient falls, beside the paper's "
      "bound";
  Index hidden = 32, batch = 8, steps = 100000;
  std::vector<std::string> reflections = {"N", "N/2", "N/4"};
  double noise = 0.1;
  std::vector<std::uint64_t> seeds = {1, 2, 3};
  std::string page;
  ResultsFile results;

  static void fields(auto&& visit) {
    using Self = ConvergenceBenchmark;
    visit("hidden", &Self::hidden, Domain{.low = 2, .high = 4096}, "State size N");
    visit("reflections", &Self::reflections, domain::any, "Reflections L: N or 0, shares as N/2, numbers");
    visit("batch", &Self::batch, up_to(1 << 20), "Samples of a step's gradient");
    visit("noise", &Self::noise, domain::positive, "Standard deviation of the targets' noise");
    visit("steps", &Self::steps, Domain{.low = 1000, .high = 1e9}, "Steps of descent");
    visit("seeds", &Self::seeds, domain::any, "Seeds");
    visit("page", &Self::page, domain::any, "File for a page with the curves");
  }
  void add_to(CLI::App& command) {
    add_settings(command, *this);
    command.get_option("--reflections")->check(reflection_count());
    results.add_to(command);
  }
  int run();
};

/// The least squared norm of the whole gradient in the first k steps.
struct LeastGradient {
  Index k;
  double squared_norm;
};

/// f(V) = E |Q(V) x - y|^2 / 2 with x ~ N(0, I) and y = Q(V*) x + noise, so that the gradient with respect to
/// Q is known, Q - Q(V*).
class NoisyRotation {
 public:
  NoisyRotation(const ConvergenceBenchmark& settings, Index reflections, std::uint64_t seed)
      : settings_(settings),
        transition_(Cwy{.reflections = reflections, .init = Init::haar, .form = ReflectionForm::dense},
                    settings.hidden),
        random_(seed, RandomPurpose::training),
        vectors_(transition_.parameter_shape()),
        d_vectors_(transition_.parameter_shape()),
        x_({settings.batch, settings.hidden}),
        residuals_({settings.batch, settings.hidden}),
        d_q_({settings.hidden, settings.hidden}) {
    transition_.initialize(seed + (std::uint64_t{1} << 32), vectors_);
    transition_.prepare(vectors_);
    target_ = transition_.materialize();
    transition_.initialize(seed, vectors_);
  }

  /// Squared norms at about eight steps of every decade.
  std::vector<LeastGradient> descend() {
    std::vector<LeastGradient> found;
    double least = std::numeric_limits<double>::infinity(), next = 1;
    for (Index k = 1; k <= settings_.steps; ++k) {
      transition_.prepare(vectors_);
      Tensor<double> difference = transition_.materialize();
      for (Index i = 0; i < difference.size(); ++i) difference.data()[i] -= target_.data()[i];
      transition_.backward(difference, d_vectors_);
      double squares = 0;
      for (const double d : d_vectors_) squares += d * d;
      least = std::min(least, squares);
      if (static_cast<double>(k) >= next || k == settings_.steps) {
        found.push_back({k, least});
        next = static_cast<double>(k) * std::pow(10, 0.125);
      }
      step(difference, 1 / std::sqrt(static_cast<double>(k)));
    }
    return found;
  }

 private:
  /// A step along the gradient of a batch.
  void step(const Tensor<double>& difference, double rate) {
    for (double& x : x_) x = random_.normal();
    for (double& r : residuals_) r = -settings_.noise * random_.normal();
    const auto x = columns_of(std::as_const(x_));
    gemm<double>(1, transposed(columns_of(difference)), x, 1, columns_of(residuals_));
    gemm<double>(1 / static_cast<double>(settings_.batch), x,
                 transposed(columns_of(std::as_const(residuals_))), 0, columns_of(d_q_));
    transition_.backward(d_q_, d_vectors_);
    for (Index i = 0; i < vectors_.size(); ++i) vectors_.data()[i] -= rate * d_vectors_.data()[i];
  }

  const ConvergenceBenchmark& settings_;
  Transition<double> transition_;
  RandomStream random_;
  Tensor<double> vectors_, d_vectors_, x_, residuals_, d_q_, target_;
};

/// The theorem holds for large k: the first hundred steps are left out.
double fitted_slope(const std::vector<LeastGradient>& course) {
  std::vector<double> k, squares;
  for (const LeastGradient& one : course) {
    if (one.k < 100) continue;
    k.push_back(static_cast<double>(one.k));
    squares.push_back(one.squared_norm);
  }
  return power_of_growth(k, squares).value_or(std::numeric_limits<double>::quiet_NaN());
}

Plot plot_of(const Json& rows) {
  Plot plot{.title = "Least squared gradient norm of the first k steps",
            .caption =
                "A line for each seed. The paper's theorem is about the expected norm: it falls faster than "
                "every power of k above -1/2.",
            .x = {.title = "step k", .logarithmic = true},
            .y = {.title = "squared norm", .logarithmic = true}};
  for (const Json& row : rows) {
    PlotSeries& line = plot.series.emplace_back();
    line.name =
        fmt::format("L = {}, seed {}", row["reflections"].get<Index>(), row["seed"].get<std::uint64_t>());
    for (const Json& point : row["course"]) line.points.push_back({.x = point[0], .y = point[1]});
  }
  return plot;
}

int ConvergenceBenchmark::run() {
  results.check();
  if (!page.empty()) check_output(page, OutputKind::page, results.overwrite);
  const std::vector<Index> counts = reflections_at(reflections, hidden, AboveN::is_refused);
  fmt::print("descent on E |Q x - y|^2 / 2, y = Q* x + noise, by {} steps with rates k^-1/2\n", steps);
  fmt::print("N = {}, {} samples a step, noise {}; powers of k are fitted from step 100 on\n", hidden, batch,
             noise);
  fmt::print("the theorem has the power -0.5 for the expected norm and large k\n\n");
  fmt::print("{:>6}{:>6}{:>14}{:>14}{:>9}\n", "L", "seed", "after 100", "in the end", "power");
  Json rows = Json::array();
  for (const Index count : counts) {
    for (const std::uint64_t seed : each_once(seeds)) {
      const std::vector<LeastGradient> course = NoisyRotation(*this, count, seed).descend();
      const auto early = std::ranges::find_if(course, [](const LeastGradient& one) { return one.k >= 100; });
      const double slope = fitted_slope(course);
      fmt::print("{:>6}{:>6}{:>14.3g}{:>14.3g}{:>9.2f}\n", count, seed, early->squared_norm,
                 course.back().squared_norm, slope);
      std::fflush(stdout);
      Json row = {{"benchmark", name}, {"library_version", version()},
                  {"hidden", hidden},  {"reflections", count},
                  {"batch", batch},    {"noise", noise},
                  {"steps", steps},    {"seed", seed},
                  {"slope", slope}};
      for (const LeastGradient& one : course) row["course"].push_back({one.k, one.squared_norm});
      rows.push_back(std::move(row));
    }
  }
  results.write(rows);
  if (page.empty()) return success;
  HtmlPage html("Convergence of stochastic descent on CWY");
  html.figures({plot_of(rows)});
  write_file_atomically(page, html.str(), SymbolicLinks::replaced);
  fmt::print("page: {}\n", page);
  return success;
}

}  // namespace

Benchmark convergence_benchmark() { return benchmark_of<ConvergenceBenchmark>(); }

}  // namespace orthornn::program
