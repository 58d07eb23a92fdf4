#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "orthornn/core/parameters.hpp"
#include "orthornn/layers/delta_heads.hpp"
#include "orthornn/layers/delta_product_layer.hpp"
#include "orthornn/layers/rms_norm_layer.hpp"
#include "orthornn/nn/sequence_model.hpp"

namespace orthornn {

/// x with SiLU(x) = y, for y >= -0.27; of two such x the one nearer to zero.
double inverse_silu(double y);

/// The parameters of a network of DeltaProduct blocks in host memory, at first 0 and gains 1. Weights are
/// given for features: numbers of the residual stream, each 0 or 1. How many are 1 at a norm is known, so
/// weights undo the norm.
template <class T>
class ExactWeights {
 public:
  // Numbers before an activation: SiLU(large) is large, up to 1e-7 of it, and with beta_limit 2 beta is 2 and
  // 0, in float without an error.
  static constexpr double large = 16, beta_two = 32, beta_zero = -128;

  ExactWeights(const ModelOptions& options, const DeltaProductCell& cell, bool has_mlp)
      : hidden_size_(cell.hidden_size),
        heads_(cell),
        cells_of_block_(has_mlp ? 2 : 1),
        parameters_(parameter_layout<T>(options)) {
    parameters_.allocate(Device::cpu());
    for (std::size_t i = 0; i < parameters_.list().size(); ++i) {
      const bool is_gain = parameters_.list()[i].name.ends_with("/gain");
      for (T& x : parameters_.value(static_cast<Index>(i))) x = is_gain ? T{1} : T{0};
    }
    embedding_ = of_name("embedding/vectors");
    readout_ = of_name("readout/weight");
  }

  const ParameterSet<T>& parameters() const { return parameters_; }

  void embed(Index symbol, Index feature) { embedding_(symbol, feature) = T{1}; }
  /// With so many `ones` at the last norm.
  void classify(Index answer, Index feature, double weight, double ones) {
    readout_(answer, feature) = static_cast<T>(weight / after_norm(ones));
  }

  /// The delta product of a block. What is given for several features is added up over those that are 1.
  class Delta {
   public:
    Delta(ExactWeights& all, Index block, double ones)
        : h_(all.heads_),
          norm_(all.after_norm(ones)),
          input_(all.of_block(block, 0, "input_weights")),
          output_(all.of_block(block, 0, "output_weights")) {}

    void query(Index head, Index place, Index feature, double x) { set(head * h_.key + place, feature, x); }
    void key(Index factor, Index head, Index place, Index feature, double x) {
      set(h_.first_key() + (factor * h_.heads + head) * h_.key + place, feature, x);
    }
    void value(Index factor, Index head, Index place, Index feature, double x) {
      set(h_.first_value() + (factor * h_.heads + head) * h_.value + place, feature, x);
    }
    void beta(Index factor, Index head, Index feature, double x) {
      set(h_.first_beta() + factor * h_.heads + head, feature, x);
    }
    /// No factor of the heads from `head` on, and none from `factor` on of those before it.
    void switch_off(Index head, Index factor, Index feature) {
      for (Index h = 0; h < h_.heads; ++h) {
        for (Index j = h < head ? factor : 0; j < h_.factors; ++j) beta(j, h, feature, beta_zero);
      }
    }
    /// Adds what a head reads to a feature.
    void read(Index head, Index place, Index feature, double weight) {
      output_(feature, head * h_.value + place) = static_cast<T>(weight);
    }

   private:
    void set(Index row, Index feature, double x) { input_(row, feature) = static_cast<T>(x / norm_); }

    DeltaHeads h_;
    double norm_;
    TensorView<T> input_, output_;
  };

  /// The MLP of a block, made of gates: a gate adds one feature to others where a weighted sum of features is
  /// 1/2, and not where it is -1/2 or less.
  class Mlp {
   public:
    Mlp(ExactWeights& all, Index block, double ones)
        : norm_(all.after_norm(ones)),
          input_(all.of_block(block, 1, "input_weights")),
          output_(all.of_block(block, 1, "output_weights")) {}

    void condition(Index gate, Index feature, double weight) {
      input_(gate, feature) = static_cast<T>(2 * open * weight / norm_);
    }
    /// Of the gate, from the feature.
    void pass(Index gate, Index feature) {
      input_(output_.shape()[1] + gate, feature) = static_cast<T>(1 / norm_);
    }
    void to(Index gate, Index feature) { output_(feature, gate) = static_cast<T>(1 / open); }

   private:
    /// SiLU(open) is open, and SiLU(-open) is below 1e-41.
    static constexpr double open = 100;

    double norm_;
    TensorView<T> input_, output_;
  };

 private:
  TensorView<T> of_name(const std::string& name) { return parameters_.value(parameters_.find(name)); }
  TensorView<T> of_block(Index block, Index cell, const char* name) {
    return of_name(fmt::format("cell{}/1/{}", block * cells_of_block_ + cell, name));
  }
  /// What a norm makes of a feature that is 1.
  double after_norm(double ones) const {
    return 1 / std::sqrt(ones / static_cast<double>(hidden_size_) + RmsNorm{}.epsilon);
  }

  Index hidden_size_;
  DeltaHeads heads_;
  Index cells_of_block_;
  ParameterSet<T> parameters_;
  TensorView<T> embedding_, readout_;
};

}  // namespace orthornn
