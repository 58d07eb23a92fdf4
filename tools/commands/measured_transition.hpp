#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orthornn/orthornn.hpp"

namespace orthornn::program {

/// What can be timed, by the name that the command line and the JSON give it.
struct BenchCell {
  const char* name;
  TransitionOptions (*options)(Index reflections);
  bool has_reflections;
};

std::vector<std::string> bench_cell_names();
/// `name` is one of bench_cell_names().
const BenchCell& bench_cell(const std::string& name);

struct Sample {
  double forward_ms;
  double backward_ms;
};

/// One cell at one size, ready to be timed again and again.
class MeasuredTransition {
 public:
  MeasuredTransition(const BenchCell& cell, Index hidden, Index reflections);
  virtual ~MeasuredTransition() = default;
  virtual Sample run() = 0;
  /// Of a sample; 0 where a rate would mean nothing.
  virtual double flops() const { return 0; }

  const Transition<float>& transition() const { return *transition_; }
  /// L; 0 for cells that have no reflections.
  Index reflections() const { return reflections_; }
  const BenchCell& cell() const { return cell_; }

 protected:
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
                  Activation activation);
  Sample run() override;
  double flops() const override;

 private:
  Activation activation_;
  Index length_;
  Index batch_;
  RolloutCache<float> cache_;
  Tensor<float> input_, states_, d_input_, d_states_, bias_, last_, d_initial_;
};

/// Forming Q or its factors, and the parameters' gradient from that of Q.
class MeasuredPrepare : public MeasuredTransition {
 public:
  MeasuredPrepare(const BenchCell& cell, Index hidden, Index reflections);
  Sample run() override;

 protected:
  /// What the forward time is of.
  virtual void form();

 private:
  Tensor<float> d_q_;
};

/// The same until the entries of Q are there: forms that keep factors are multiplied out.
class MeasuredConstruction final : public MeasuredPrepare {
 public:
  using MeasuredPrepare::MeasuredPrepare;

 private:
  void form() override;
};

}  // namespace orthornn::program
