#pragma once
// Gated recurrences as grid_rollout has them: a formula of src/pointwise for one unit of one sequence, whose
// numbers lie in registers.

#include "cuda/layers/gated_rollout.hpp"
#include "cuda/rollouts/persistent/grid_launch.cuh"
#include "pointwise/gated_step.hpp"

namespace orthornn::cuda {

/// Where a unit of a sequence lies.
class GatedPlace {
 protected:
  GatedPlace() = default;
  __device__ GatedPlace(const GatedRolloutArguments& a, int unit, int sequence) {
    if (unit >= a.hidden_size || sequence >= a.batch) return;
    present_ = true;
    unit_ = unit, sequence_ = sequence;
    live_ = a.lengths == nullptr ? static_cast<int>(a.length) : a.lengths[sequence];
  }
  /// In arrays [B, N] and [T, B, N].
  __device__ Index at(const GatedRolloutArguments& a, int t = 0) const {
    return (t * a.batch + sequence_) * a.hidden_size + unit_;
  }
  /// Of gate i, in arrays [T, B, G N].
  __device__ Index gate_at(const GatedRolloutArguments& a, int t, int gates, int i) const {
    return ((t * a.batch + sequence_) * gates + i) * a.hidden_size + unit_;
  }

  bool present_ = false;
  int unit_ = 0, sequence_ = 0;
  /// Steps of the sequence.
  int live_ = 0;
};

template <class Formula, Direction way>
class GatedElement;

template <class Formula>
class GatedElement<Formula, Direction::forward> : GatedPlace {
  static constexpr int state_count = static_cast<int>(Formula::states);

 public:
  static constexpr Direction direction = Direction::forward;
  static constexpr int gates = static_cast<int>(Formula::gates), published = 1;
  using Arguments = GatedRolloutArguments;
  struct Work {
    float gates[static_cast<int>(Formula::gates)];
    float last_product;
  };

  GatedElement() = default;
  __device__ GatedElement(const Arguments& a, int unit, int sequence) : GatedPlace(a, unit, sequence) {
    if (!present_ || !Formula::separate_products) return;
    for (int i = 0; i < gates; ++i) bias_[i] = a.product_bias[i * a.hidden_size + unit];
  }

  __device__ Work load(const Arguments& a, int t) const {
    Work work{};
    if (!present_) return work;
    for (int i = 0; i < gates; ++i) work.gates[i] = a.gates[gate_at(a, t, gates, i)];
    return work;
  }
  __device__ void start(const Arguments& a, float (&x)[1]) {
    for (int i = 0; i < state_count; ++i) states_[i] = present_ ? a.states[i][at(a)] : 0.0f;
    x[0] = states_[0];
  }
  __device__ void step(const Arguments&, int t, const float (&products)[gates], Work& work, float (&x)[1]) {
    float sums[gates], before[2] = {states_[0], states_[state_count - 1]};
    pointwise::GatedStep<float> step{.length = live_, .step = t, .size = 1, .gates = work.gates};
    for (int i = 0; i < gates; ++i) {
      sums[i] = products[i] + bias_[i];
      if (!Formula::separate_products) work.gates[i] += products[i];
    }
    step.products = sums;
    step.before = {before, before + 1};
    step.after = {states_, states_ + 1};
    pointwise::GatedForward<float, Formula>{step}(0, 0);
    work.last_product = sums[gates - 1];
    x[0] = states_[0];
  }
  __device__ void keep(const Arguments& a, int t, const Work& work) const {
    if (!present_) return;
    for (int i = 0; i < state_count; ++i) {
      a.states[i][at(a, t + 1)] = states_[i];
      if (t + 1 == live_ && a.last[i] != nullptr) a.last[i][at(a)] = states_[i];
    }
    if (t >= live_) return;
    for (int i = 0; i < gates; ++i) a.gates[gate_at(a, t, gates, i)] = work.gates[i];
    if (Formula::separate_products) a.products[gate_at(a, t, gates, gates - 1)] = work.last_product;
  }
  __device__ void end(const Arguments&, const float (&)[gates]) const {}

 private:
  float bias_[gates] = {};
  float states_[2] = {};
};

template <class Formula>
class GatedElement<Formula, Direction::backward> : GatedPlace {
  static constexpr int state_count = static_cast<int>(Formula::states);
  static constexpr int gate_count = static_cast<int>(Formula::gates);

 public:
  static constexpr Direction direction = Direction::backward;
  static constexpr int gates = 1, published = gate_count;
  using Arguments = GatedRolloutArguments;
  struct Work {
    float gates[gate_count], products[gate_count];
    float d_h;
    float before[2], after[2], d_last[2];
  };

  GatedElement() = default;
  __device__ GatedElement(const Arguments& a, int unit, int sequence) : GatedPlace(a, unit, sequence) {}

  __device__ Work load(const Arguments& a, int t) const {
    Work work{};
    if (!present_) return work;
    for (int i = 0; i < gate_count; ++i) work.gates[i] = a.gates[gate_at(a, t, gate_count, i)];
    if (Formula::separate_products && t < live_)
      work.products[gate_count - 1] = a.products[gate_at(a, t, gate_count, gate_count - 1)];
    work.d_h = a.d_h[at(a, t)];
    for (int i = 0; i < state_count; ++i) {
      work.before[i] = a.states[i][at(a, t)];
      work.after[i] = a.states[i][at(a, t + 1)];
      if (t + 1 == live_ && a.d_last[i] != nullptr) work.d_last[i] = a.d_last[i][at(a)];
    }
    return work;
  }
  __device__ void step(const Arguments&, int t, const float (&products)[1], Work& work,
                       float (&x)[gate_count]) {
    work.d_h += products[0] + past_product_;
    past_product_ = 0;
    pointwise::GatedStep<float> step{.length = live_, .step = t, .size = 1, .gates = work.gates};
    step.products = work.products;
    step.before = {work.before, work.before + 1};
    step.after = {work.after, work.after + 1};
    step.d_last = {work.d_last, work.d_last + 1};
    step.d_h = &work.d_h;
    step.d_h_before = &past_product_;
    step.d_c = &d_c_;
    pointwise::GatedBackward<float, Formula>{step}(0, 0);
    for (int i = 0; i < gate_count; ++i) x[i] = Formula::separate_products ? work.products[i] : work.gates[i];
  }
  __device__ void keep(const Arguments& a, int t, const Work& work) const {
    if (!present_) return;
    for (int i = 0; i < gate_count; ++i) {
      a.gates[gate_at(a, t, gate_count, i)] = work.gates[i];
      if (Formula::separate_products) a.products[gate_at(a, t, gate_count, i)] = work.products[i];
    }
  }
  __device__ void end(const Arguments& a, const float (&products)[1]) const {
    if (!present_) return;
    a.d_first[0][at(a)] = products[0] + past_product_;
    if (state_count > 1) a.d_first[1][at(a)] = d_c_;
  }

 private:
  /// What reaches h of the step before past the product, and c.
  float past_product_ = 0, d_c_ = 0;
};

/// Starts the rollout of a formula.
template <class Formula>
void gated_grid_rollout(Direction direction, const GatedRolloutArguments& arguments, const float* weights,
                        const GridPlan& plan) {
  const GridMatrix matrix{.data = weights,
                          .gates = static_cast<int>(Formula::gates),
                          .n = static_cast<int>(arguments.hidden_size),
                          .padded = 0};
  Context& gpu = context(arguments.device);
  if (direction == Direction::forward) {
    return start_in_precision<GatedElement<Formula, Direction::forward>>(gpu, arguments, matrix, plan);
  }
  start_in_precision<GatedElement<Formula, Direction::backward>>(gpu, arguments, matrix, plan);
}

}  // namespace orthornn::cuda
