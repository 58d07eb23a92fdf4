#pragma once

#include <memory>
#include <string>
#include <vector>

#include "commands/timed_pass.hpp"
#include "orthornn/orthornn.hpp"

namespace orthornn::program {

/// K of the layers that are timed whole. cuDNN has no recurrence without the product of its input.
inline constexpr Index measured_input_size = 10;

/// A layer that is timed whole, by the name that the command line and the JSON give it.
struct BenchLayer {
  std::string name;
  /// What a comparison of all methods calls it.
  std::string title;
  RecurrentOptions options;
  /// Blocks of N rows in its weights.
  Index gates;

  /// Its options with N units.
  RecurrentOptions with(Index hidden) const;
};

/// LSTM and GRU.
const std::vector<BenchLayer>& bench_layers();
/// nullptr for another name.
const BenchLayer* find_bench_layer(const std::string& name);

/// Operations of the products of G gates' recurrence and input, forward, backward and for the weights.
inline double flops_of_gates(Index gates, Index hidden, Index length, Index batch) {
  return 6.0 * static_cast<double>(gates * hidden * (hidden + measured_input_size)) *
         static_cast<double>(length * batch);
}

/// A layer with random inputs [T, B, measured_input_size]: prepare and forward; then backward with the
/// gradients of the parameters, of the inputs and of the first states.
class MeasuredLayer final : public Measured {
 public:
  MeasuredLayer(const BenchLayer& kind, Index hidden, Index length, Index batch, const Execution& execution);

  Sample run() override { return pass_.run(); }
  std::string cell() const override { return kind_.name; }
  std::string form() const override { return description().form; }
  Index hidden_size() const override { return layer_->output_size(); }
  double flops() const override;
  nlohmann::ordered_json details() override;

 private:
  std::vector<TensorView<float>> make_states();
  LayerDescription description() const { return layer_->describe(input_.shape()[0], input_.shape()[1]); }
  void forward();
  void backward();

  const BenchLayer& kind_;
  ParameterSet<float> parameters_;
  std::unique_ptr<Layer<float>> layer_;
  Tensor<float> input_, d_input_, d_output_, work_d_output_;
  /// `states_` has the memory of the other two.
  Saved states_;
  std::vector<TensorView<float>> last_, d_start_;
  Saved saved_, scratch_;
  TimedPass pass_;
};

}  // namespace orthornn::program
