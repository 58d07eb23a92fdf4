#include <algorithm>
#include <cmath>

#include "nn/exact_plan.hpp"
#include "orthornn/delta/exact_factors.hpp"
#include "orthornn/tasks/group_representation.hpp"

namespace orthornn {

OneLayerPlan::OneLayerPlan(const GroupWords& words)
    : matrices_(orthogonal_representation(words.group, words.elements)) {
  for (const Index element : words.elements)
    reflections_.push_back(reflection_normals(matrices_.view()[element]));
}

DeltaProductCell OneLayerPlan::cell() const {
  std::size_t factors = 1;
  for (const auto& reflections : reflections_) factors = std::max(factors, reflections.size());
  return {.hidden_size = matrix(size(), 0),
          .heads = size(),
          .key_size = size(),
          .value_size = size(),
          .householder = static_cast<Index>(factors),
          .readout_norm = ReadoutNorm::none};
}

/// With C = c I and v = -C k, a factor with beta = 2 makes (I - 2 k k^T) (S + C) of S + C. So S + C, which
/// begins as C, is c A(y_t), and S begins at 0. The embedding has the rows of I where the rows of S / c are
/// added. The score of an element h is the sum of A(h) * A(y), at most d, and d for y alone.
template <class T>
void OneLayerPlan::write(ExactWeights<T>& weights) const {
  const Index d = size(), order = matrices_.shape()[0];
  const double c = exact_value_size, ones = static_cast<double>(1 + d);
  typename ExactWeights<T>::Delta delta(weights, 0, ones);
  for (Index s = 0; s < symbols(); ++s) {
    weights.embed(s, s);
    for (Index i = 0; i < d; ++i) weights.embed(s, matrix(i, i));
    const auto& reflections = reflections_[static_cast<std::size_t>(s)];
    delta.switch_off(d, std::ssize(reflections), s);
    for (Index head = 0; head < d; ++head) {
      delta.query(head, head, s, weights.large);
      for (Index j = 0; j < std::ssize(reflections); ++j) {
        const std::vector<double>& k = reflections[static_cast<std::size_t>(j)];
        delta.beta(j, head, s, weights.beta_two);
        for (Index i = 0; i < d; ++i) {
          const double x = c * k[static_cast<std::size_t>(i)];
          if (std::abs(x) < 1e-12) continue;  // a 0 of cos and sin
          delta.key(j, head, i, s, inverse_silu(x));
          delta.value(j, head, i, s, inverse_silu(-x));
        }
      }
    }
  }
  for (Index i = 0; i < d; ++i) {
    for (Index j = 0; j < d; ++j) delta.read(i, j, matrix(i, j), 1 / c);
  }
  // The score of an element for another one is the trace of a third.
  double second = -static_cast<double>(d);
  for (Index h = 1; h < order; ++h) {
    double trace = 0;
    for (Index i = 0; i < d; ++i) trace += matrices_(h, i, i);
    second = std::max(second, trace);
  }
  const double scale = exact_score_gap / (static_cast<double>(d) - second);
  for (Index h = 0; h < order; ++h) {
    for (Index i = 0; i < d; ++i) {
      for (Index j = 0; j < d; ++j) weights.classify(h, matrix(i, j), scale * matrices_(h, i, j), ones);
    }
  }
}

template void OneLayerPlan::write<float>(ExactWeights<float>&) const;
template void OneLayerPlan::write<double>(ExactWeights<double>&) const;

}  // namespace orthornn
