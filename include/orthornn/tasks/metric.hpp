#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orthornn {

/// Figure of a task beside its loss, made of what `Task::count_metrics` counts on held-out data.
struct Metric {
  /// Name in `metrics.csv` and in JSON, of the characters a to z, 0 to 9 and _, at most 40 bytes. It is
  /// not that of another column or key, such as "loss".
  std::string name;
  /// Words for it on screens and plots, for example "right": "97.00 % right".
  std::string title;
  /// Whether its values are shares, 0 to 1, which are shown in percent.
  bool is_share = true;

  /// Share of the answers that are right.
  static Metric accuracy() { return {"accuracy", "right"}; }
  /// Share of the sequences whose answers are all right, for a task with several answers a sequence.
  static Metric sequence_accuracy() { return {"sequence_accuracy", "right sequences"}; }
  /// The exponential of a mean cross-entropy: as many equally likely choices would have that loss.
  static Metric perplexity() { return {"perplexity", "perplexity", /*is_share=*/false}; }
  /// Mean cross-entropy of a symbol in bits.
  static Metric bits_per_symbol() { return {"bits_per_symbol", "bits a symbol", /*is_share=*/false}; }
  /// Mean cross-entropy of a byte of text in bits.
  static Metric bits_per_byte() { return {"bits_per_byte", "bits a byte", /*is_share=*/false}; }
};

/// Value of a metric.
struct MetricValue {
  /// Metric that was counted.
  Metric metric;
  /// Value; not a number where nothing was counted.
  double value = 0;
};

/// Result of a model on held-out data.
struct Evaluation {
  /// Mean loss of a target.
  double loss = 0;
  /// Values of the task's metrics, in the order of `Task::metrics`.
  std::vector<MetricValue> metrics = {};

  /// Value of the metric `name`; no value where the task has no such metric.
  std::optional<double> metric(std::string_view name) const {
    const auto found = std::ranges::find(metrics, name, [](const MetricValue& m) { return m.metric.name; });
    return found == metrics.end() ? std::nullopt : std::optional(found->value);
  }
};

}  // namespace orthornn
