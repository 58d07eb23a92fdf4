#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands/timing.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::program {

struct Sample {
  double forward_ms;
  double backward_ms;
};

/// At least one, and what the JSON of a measurement says of them.
struct Samples {
  std::vector<double> forward, backward, total;

  void add(const Sample& sample) {
    forward.push_back(sample.forward_ms);
    backward.push_back(sample.backward_ms);
    total.push_back(sample.forward_ms + sample.backward_ms);
  }
  void add_to(nlohmann::ordered_json& json) const {
    json["forward_ms"] = median(forward);
    json["backward_ms"] = median(backward);
    json["total_ms"] = median(total);
    json["forward_samples_ms"] = forward;
    json["backward_samples_ms"] = backward;
    json["total_samples_ms"] = total;
  }
};

/// Something at one size, ready to be timed again and again.
class Measured {
 public:
  Measured() = default;
  virtual ~Measured() = default;
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

  virtual Sample run() = 0;
  /// By the name that the command line and the JSON give it.
  virtual std::string cell() const = 0;
  virtual std::string form() const = 0;
  virtual Index hidden_size() const = 0;
  /// L; 0 for cells that have no reflections.
  virtual Index reflections() const { return 0; }
  /// Of a sample; 0 where a rate would mean nothing.
  virtual double flops() const { return 0; }
  /// What else the JSON of its results says of it, after a `run`. Recurrences say how the state is carried,
  /// "rollout", and max |I - A^T A| of the AppliedMatrix A, "orthogonality_error".
  virtual nlohmann::ordered_json details() { return nlohmann::ordered_json::object(); }
};

}  // namespace orthornn::program
