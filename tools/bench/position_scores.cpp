#include "orthornn/delta/position_scores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "bench/random_tensors.hpp"
#include "bench/sequence_function.hpp"
#include "bench/table.hpp"
#include "core/fields_json.hpp"
#include "linalg/gemm.hpp"  // not public: the library has no function for plain scores

namespace orthornn::program {
namespace {

struct PositionScoresBenchmark {
  static constexpr const char* name = "position-scores";
  static constexpr const char* help =
      "Attention scores with Householder position encoding (PaTH), and plain ones, forward and backward";
  Index batch = 1, length = 2048, heads = 4, size = 64;
  Index chunk = PositionScoresOptions().chunk;
  NumberType precision = NumberType::fp32;
  MachineOptions machine{.device = "cpu"};
  SamplingOptions sampling;

  static void fields(auto&& visit) {
    using Self = PositionScoresBenchmark;
    visit("batch", &Self::batch, up_to(1 << 20), "Sequences B");
    visit("length", &Self::length, up_to(1 << 20), "Tokens T; the scores are T x T");
    visit("heads", &Self::heads, up_to(4096), "Heads H");
    visit("size", &Self::size, up_to(4096), "Size D of a key");
    visit("chunk", &Self::chunk, up_to(4096), "Tokens of a chunk at most; on a GPU 32 at most");
    visit("precision", &Self::precision, domain::any, "Numbers: fp32 or fp64");
  }
  void add_to(CLI::App& command) {
    add_settings(command, *this);
    machine.add_device_to(command);
    sampling.add_to(command);
  }
  int run();

  /// Held at once, about: scores and their gradients, keys at the ends of all chunks, and what else has D.
  double numbers() const {
    const auto t = static_cast<double>(length), d = static_cast<double>(size),
               c = static_cast<double>(std::min(chunk, length));
    return static_cast<double>(batch) * static_cast<double>(heads) * t *
           (2 * t + d * ((t + c) / (2 * c) + 7));
  }
  /// A product of all queries with all keys, and of the gradients with both.
  double plain_flops() const {
    const auto t = static_cast<double>(length);
    return 3 * 2 * static_cast<double>(batch * heads) * t * t * static_cast<double>(size);
  }
  /// What `position_scores` needs, forward and backward. Products with triangular matrices count half: that
  /// the library multiplies by their zeros is its loss.
  double position_flops() const {
    const auto t = static_cast<double>(length), d = static_cast<double>(size),
               c = static_cast<double>(std::min(chunk, length));
    // Pairs of a query and a key that is not after it; keys carried over a chunk, times its tokens; what a
    // triangle costs with all keys so far.
    const double pairs = t * t / 2, carried = t * (t - c) / 2, triangle = t * (t + c) * c / 4;
    const double forward = d * (2 * pairs + carried) + 2 * triangle  // scores, reach, keys; updates
                           + t * c * d + t * c * c / 6;              // coupling and meeting, inverse
    const double backward = d * (5 * pairs + 2 * carried) + 5 * triangle + 3.5 * t * c * d + t * c * c / 6;
    return 2 * static_cast<double>(batch * heads) * (forward + backward);
  }
  template <class T>
  int time_rows(const Execution& execution) const;
};

/// Queries and keys, and factors that are reflections.
template <class T>
struct TimedScores {
  TimedScores(const PositionScoresBenchmark& timed, Device on) : settings(timed), device(on) {}

  PositionScoresInput<T> input() const {
    return {.queries = queries, .keys = keys, .vectors = vectors, .betas = betas};
  }
  void each_head(const auto& visit) const {
    for (Index b = 0; b < layout.size(); ++b) {
      for (Index head = 0; head < h; ++head) visit(b, head);
    }
  }
  /// The vectors [R, H, D] of a head as columns.
  MatrixView<T> vectors_of(Tensor<T>& x, Index b, Index head) const {
    const TokenLayout::Sequence& sequence = layout[b];
    return {x.data() + (sequence.first * h + head) * d, d, sequence.count, sequence.stride * h * d, device};
  }
  /// A query's scores are a column.
  MatrixView<T> scores_of(Tensor<T>& x, Index b, Index head) const {
    return {x.data() + (b * h + head) * t * t, t, t, t, device};
  }

  const PositionScoresBenchmark& settings;
  Device device;
  PositionScoresOptions options{.chunk = settings.chunk};
  TokenLayout layout = TokenLayout::time_major(settings.length, settings.batch);
  Index rows = layout.rows(), t = settings.length, h = settings.heads, d = settings.size;
  Tensor<T> queries = normal_tensor<T>({rows, h, d}, device, 1), d_queries = zeros_like(queries);
  Tensor<T> keys = normal_tensor<T>({rows, h, d}, device, 2), d_keys = zeros_like(keys);
  Tensor<T> vectors = unit_vectors<T>({rows, h, d}, device, 3), d_vectors = zeros_like(vectors);
  Tensor<T> betas = filled_tensor<T>({rows, h}, device, 2), d_betas = zeros_like(betas);
  Tensor<T> d_scores = normal_tensor<T>({settings.batch, h, t, t}, device, 4), scores = zeros_like(d_scores);
  Saved saved{device};
};

template <class T>
Pass position_scores_pass(const std::shared_ptr<TimedScores<T>>& x) {
  const auto forward = [x] {
    x->saved.clear();  // a forward that is timed alone has no backward
    position_scores_forward<T>(x->input(), x->layout, x->options, x->scores, x->saved);
  };
  const auto backward = [x] {
    position_scores_backward<T>(x->input(), x->layout, x->options,
                                {.d_scores = x->d_scores,
                                 .d_queries = x->d_queries,
                                 .d_keys = x->d_keys,
                                 .d_vectors = x->d_vectors,
                                 .d_betas = x->d_betas},
                                x->saved);
  };
  return {.forward = forward, .backward = backward};
}

template <class T>
Pass plain_scores_pass(const std::shared_ptr<TimedScores<T>>& x) {
  const auto forward = [x] {
    x->each_head([&](Index b, Index head) {
      gemm<T>(1, transposed(x->vectors_of(x->keys, b, head)), x->vectors_of(x->queries, b, head), 0,
              x->scores_of(x->scores, b, head));
    });
  };
  const auto backward = [x] {
    x->each_head([&](Index b, Index head) {
      const MatrixView<T> d_scores = x->scores_of(x->d_scores, b, head);
      gemm<T>(1, x->vectors_of(x->keys, b, head), d_scores, 0, x->vectors_of(x->d_queries, b, head));
      gemm<T>(1, x->vectors_of(x->queries, b, head), transposed(d_scores), 0,
              x->vectors_of(x->d_keys, b, head));
    });
  };
  return {.forward = forward, .backward = backward};
}

template <class T>
int PositionScoresBenchmark::time_rows(const Execution& execution) const {
  BenchTable table(sampling, execution, name_of(precision));
  fmt::print("attention scores: batch {}, {} tokens, {} heads, keys of {}\n", batch, length, heads, size);
  fmt::print("position: position_scores, with chunks of at most {} tokens\n", chunk);
  fmt::print("plain: products of all queries and keys of a head, without position encoding\n");
  table.begin({{"scores", "/scores", 10}}, "D x D by D x 64 a thread");
  const auto timed = std::make_shared<TimedScores<T>>(*this, execution.device);
  const auto time = [&](const std::string& scores, const Pass& pass, double flops) {
    Json row = json_object(*this, "benchmark");
    row["scores"] = scores;
    if (scores == "plain") row.erase("chunk");
    table.time(
        {.fields = row, .pass = pass, .flops = flops, .reference = usual_product<T>(execution.device, size)});
  };
  time("plain", plain_scores_pass(timed), plain_flops());
  time("position", position_scores_pass(timed), position_flops());
  return table.finish();
}

int PositionScoresBenchmark::run() {
  const Execution execution = execution_in_chunks(*this, PositionScoresOptions().chunk);
  return precision == NumberType::fp64 ? time_rows<double>(execution) : time_rows<float>(execution);
}

}  // namespace

Benchmark position_scores_benchmark() { return benchmark_of<PositionScoresBenchmark>(); }

}  // namespace orthornn::program
