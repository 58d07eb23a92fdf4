#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands/measured.hpp"
#include "commands/timed_pass.hpp"
#include "orthornn/orthornn.hpp"

namespace orthornn::program {

/// What can be timed, by the name that the command line and the JSON give it.
struct BenchCell {
  std::string name;
  /// What a comparison of all methods calls it; "" for those that it leaves out.
  std::string title;
  TransitionOptions options;

  bool has_reflections() const { return reflections_of(options) != nullptr; }
  /// Its options with L reflections, where it has any.
  TransitionOptions with(Index reflections) const;
};

/// Every parametrization by its own name, and forms that only benchmarks name.
const std::vector<BenchCell>& bench_cells();
/// `name` is that of one of them.
const BenchCell& bench_cell(std::string_view name);

/// A transition of ours, whatever is timed of it.
class MeasuredTransition : public Measured {
 public:
  MeasuredTransition(const BenchCell& cell, Index hidden, Index reflections, const Execution& execution);

  std::string cell() const override { return cell_.name; }
  std::string form() const override { return transition_->form(); }
  Index hidden_size() const override { return transition_->hidden_size(); }
  Index reflections() const override { return reflections_; }

 protected:
  Device device() const { return transition_->device(); }

  const BenchCell& cell_;
  std::unique_ptr<Transition<float>> transition_;
  Tensor<float> parameters_;
  Tensor<float> d_parameters_;
  Index reflections_;
};

/// prepare and the recurrence forward; then backward, the gradient of the transition and of its parameters.
/// The input product, the same for every cell, is left out: random numbers stand in for W x + b.
class MeasuredRollout final : public MeasuredTransition {
 public:
  MeasuredRollout(const BenchCell& cell, Index hidden, Index reflections, Index length, Index batch,
                  Activation activation, const Execution& execution);
  Sample run() override { return pass_.run(); }
  double flops() const override;
  nlohmann::ordered_json details() override;

 private:
  void forward();
  void backward();

  Activation activation_;
  Index length_;
  Index batch_;
  RolloutCache<float> cache_;
  AppliedMatrix<float> applied_;
  Tensor<float> input_, states_, d_input_, d_states_, bias_, last_, d_initial_;
  TimedPass pass_;
};

/// Forming Q or its factors, and the parameters' gradient from that of Q.
class MeasuredPrepare : public MeasuredTransition {
 public:
  MeasuredPrepare(const BenchCell& cell, Index hidden, Index reflections, const Execution& execution);
  Sample run() override { return pass_.run(); }

 protected:
  /// What the forward time is of.
  virtual void form_q();

 private:
  Tensor<float> d_q_;
  TimedPass pass_;
};

/// The same until the entries of Q are there: forms that keep factors are multiplied out.
class MeasuredConstruction final : public MeasuredPrepare {
 public:
  MeasuredConstruction(const BenchCell& cell, Index hidden, Index reflections, const Execution& execution);

 private:
  void form_q() override;

  /// For GPUs and forms that keep factors.
  Tensor<float> identity_, q_, coefficients_;
};

}  // namespace orthornn::program
