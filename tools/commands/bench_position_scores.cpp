#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "commands/bench_in_chunks.hpp"
#include "commands/field_options.hpp"
#include "linalg/gemm.hpp"  // not public: the library has no function for plain scores
#include "orthornn/delta/position_scores.hpp"

namespace orthornn::program {
namespace {

using Json = nlohmann::ordered_json;

struct BenchScoresSettings {
  Index batch = 1;
  Index length = 2048;
  Index heads = 4;
  Index size = 64;
  Index chunk = PositionScoresOptions().chunk;
  NumberType precision = NumberType::fp32;
  MachineOptions machine;
  PassTableOptions table;

  /// Held at once, about: scores and their gradients, keys at the ends of all chunks, and what else has D.
  double numbers() const {
    const auto t = static_cast<double>(length), d = static_cast<double>(size),
               c = static_cast<double>(std::min(chunk, length));
    return static_cast<double>(batch) * static_cast<double>(heads) * t *
           (2 * t + d * ((t + c) / (2 * c) + 7));
  }
};

/// What position_scores needs. Products with triangular matrices count half: that the library multiplies by
/// their zeros is its loss.
Flops position_flops(const BenchScoresSettings& settings) {
  const auto t = static_cast<double>(settings.length), d = static_cast<double>(settings.size),
             c = static_cast<double>(std::min(settings.chunk, settings.length));
  // Pairs of a query and a key that is not after it; keys carried over a chunk, times its tokens; what a
  // triangle costs with all keys so far.
  const double pairs = t * t / 2, carried = t * (t - c) / 2, triangle = t * (t + c) * c / 4;
  const double forward = d * (2 * pairs + carried) + 2 * triangle  // scores, reach, keys; updates
                         + t * c * d + t * c * c / 6;              // coupling and meeting, inverse
  const double backward = d * (5 * pairs + 2 * carried) + 5 * triangle + 3.5 * t * c * d + t * c * c / 6;
  const auto heads = static_cast<double>(settings.batch * settings.heads);
  return {.forward = 2 * heads * forward, .backward = 2 * heads * backward};
}

/// Products of all queries with all keys, and of the gradients with both.
Flops plain_flops(const BenchScoresSettings& settings) {
  const auto t = static_cast<double>(settings.length), d = static_cast<double>(settings.size);
  const double product = 2 * static_cast<double>(settings.batch * settings.heads) * t * t * d;
  return {.forward = product, .backward = 2 * product};
}

/// Scores with factors that are reflections, and those of the same queries and keys without factors.
template <class T>
class MeasuredScores {
 public:
  MeasuredScores(const BenchScoresSettings& settings, Device device)
      : device_(device),
        options_{.chunk = settings.chunk},
        layout_(TokenLayout::time_major(settings.length, settings.batch)),
        saved_(device) {
    const Index rows = layout_.rows(), t = settings.length, h = settings.heads, d = settings.size;
    queries_ = normal_tensor<T>({rows, h, d}, device, 1);
    keys_ = normal_tensor<T>({rows, h, d}, device, 2);
    vectors_ = unit_vectors<T>({rows, h, d}, device, 3);
    betas_ = filled_tensor<T>({rows, h}, device, 2);
    d_scores_ = normal_tensor<T>({settings.batch, h, t, t}, device, 4);
    scores_ = Tensor<T>(d_scores_.shape(), device);
    for (Tensor<T>* x : {&d_queries_, &d_keys_, &d_vectors_}) *x = Tensor<T>(keys_.shape(), device);
    d_betas_ = Tensor<T>(betas_.shape(), device);
  }

  /// To be timed while this lives, as `plain`.
  TimedPass position() {
    return {device_,
            true,
            {.forward =
                 [this] {
                   saved_.clear();  // a forward that is timed alone has no backward
                   position_scores_forward<T>(input(), layout_, options_, scores_, saved_);
                 },
             .backward =
                 [this] {
                   position_scores_backward<T>(input(), layout_, options_,
                                               {.d_scores = d_scores_,
                                                .d_queries = d_queries_,
                                                .d_keys = d_keys_,
                                                .d_vectors = d_vectors_,
                                                .d_betas = d_betas_},
                                               saved_);
                 }}};
  }
  TimedPass plain() {
    return {device_,
            true,
            {.forward =
                 [this] {
                   each_head([this](Index b, Index head) {
                     gemm<T>(1, transposed(vectors_of(keys_, b, head)), vectors_of(queries_, b, head), 0,
                             scores_of(scores_, b, head));
                   });
                 },
             .backward =
                 [this] {
                   each_head([this](Index b, Index head) {
                     const MatrixView<T> d_scores = scores_of(d_scores_, b, head);
                     gemm<T>(1, vectors_of(keys_, b, head), d_scores, 0, vectors_of(d_queries_, b, head));
                     gemm<T>(1, vectors_of(queries_, b, head), transposed(d_scores), 0,
                             vectors_of(d_keys_, b, head));
                   });
                 }}};
  }

 private:
  PositionScoresInput<T> input() const {
    return {.queries = queries_, .keys = keys_, .vectors = vectors_, .betas = betas_};
  }
  template <class Body>
  void each_head(const Body& body) {
    for (Index b = 0; b < layout_.size(); ++b) {
      for (Index head = 0; head < keys_.shape()[1]; ++head) body(b, head);
    }
  }
  /// The vectors [R, H, D] of a head as columns.
  MatrixView<T> vectors_of(Tensor<T>& x, Index b, Index head) const {
    const Index heads = x.shape()[1], size = x.shape()[2];
    const TokenLayout::Sequence& sequence = layout_[b];
    return {x.data() + (sequence.first * heads + head) * size, size, sequence.count,
            sequence.stride * heads * size, device_};
  }
  /// A query's scores are a column.
  MatrixView<T> scores_of(Tensor<T>& x, Index b, Index head) const {
    const Index heads = x.shape()[1], length = x.shape()[2];
    return {x.data() + (b * heads + head) * length * length, length, length, length, device_};
  }

  Device device_;
  PositionScoresOptions options_;
  TokenLayout layout_;
  Tensor<T> queries_, keys_, vectors_, betas_, d_scores_;
  Tensor<T> scores_, d_queries_, d_keys_, d_vectors_, d_betas_;
  Saved saved_;
};

template <class T>
void measure(const BenchScoresSettings& settings, Device device, PassTable& table) {
  MeasuredScores<T> measured(settings, device);
  const auto rate = product_rate<T>(device, settings.size);
  const auto time = [&](const char* scores, TimedPass pass, const Flops& flops, const Json& more) {
    Json fields = {{"benchmark", "position-scores"}, {"scores", scores},        {"batch", settings.batch},
                   {"length", settings.length},      {"heads", settings.heads}, {"size", settings.size}};
    fields.update(more);
    table.time(std::move(pass), flops, rate, fmt::format("{:<10}", scores), std::move(fields));
  };
  time("plain", measured.plain(), plain_flops(settings), Json::object());
  time("position", measured.position(), position_flops(settings), {{"chunk", settings.chunk}});
}

int bench_position_scores(BenchScoresSettings& settings) {
  const auto describe = [&](Device) {
    fmt::print("attention scores: batch {}, {} tokens, {} heads, keys of {}\n", settings.batch,
               settings.length, settings.heads, settings.size);
    fmt::print("position: position_scores, with chunks of at most {} tokens\n", settings.chunk);
    fmt::print("plain: products of all queries and keys of a head, without position encoding\n");
  };
  return bench_in_chunks(
      settings, PositionScoresOptions().chunk, "scores", describe,
      [&]<class T>(T, Device device, PassTable& table) { measure<T>(settings, device, table); });
}

}  // namespace

void add_bench_position_scores(CLI::App& bench, Command& chosen) {
  CLI::App* command = bench.add_subcommand(
      "position-scores",
      "Attention scores with Householder position encoding (PaTH), and plain ones, forward and backward");
  command->option_defaults()->always_capture_default();
  const auto settings = std::make_shared<BenchScoresSettings>();
  settings->machine.device = "cpu";
  add_size(*command, "--batch", settings->batch, "Sequences B", Index{1} << 20);
  add_size(*command, "--length", settings->length, "Tokens T; the scores are T x T", Index{1} << 20);
  add_size(*command, "--heads", settings->heads, "Heads H", 4096);
  add_size(*command, "--size", settings->size, "Size D of a key", 4096);
  add_size(*command, "--chunk", settings->chunk, "Tokens of a chunk at most; on a GPU 32 at most", 4096);
  settings->machine.add_device_to(*command);
  add_value(*command, "--precision", settings->precision, "Numbers: fp32 or fp64");
  settings->table.add_to(*command);
  command->callback(
      [&chosen, settings] { chosen = [settings] { return bench_position_scores(*settings); }; });
}

}  // namespace orthornn::program
