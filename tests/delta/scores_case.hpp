#pragma once

#include <cmath>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "orthornn/delta/position_scores.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {

/// Scores with everything that goes into them and comes out: vectors of norm 1 and betas from 0 to 2.
template <class T>
struct ScoresCase {
  TokenLayout layout;
  PositionScoresOptions options;
  Tensor<T> queries, keys, vectors, betas, d_scores;
  Tensor<T> scores, d_queries, d_keys, d_vectors, d_betas;
  std::unique_ptr<Saved> saved = std::make_unique<Saved>(Device::cpu());

  ScoresCase(TokenLayout where, Index heads, Index size, Index length, PositionScoresOptions how)
      : layout(std::move(where)), options(how) {
    const Index rows = layout.rows();
    queries = normal_tensor<T>({rows, heads, size}, 1);
    keys = normal_tensor<T>({rows, heads, size}, 2);
    vectors = normal_tensor<T>({rows, heads, size}, 3);
    for (T* w = vectors.begin(); w != vectors.end(); w += size) {
      T squares = 0;
      for (Index i = 0; i < size; ++i) squares += w[i] * w[i];
      for (Index i = 0; i < size; ++i) w[i] /= std::sqrt(squares);
    }
    betas = normal_tensor<T>({rows, heads}, 4);
    for (T& beta : betas) beta = 2 / (1 + std::exp(-beta));
    d_scores = normal_tensor<T>({layout.size(), heads, length, length}, 5);
    scores.resize(d_scores.shape());
    d_queries.resize(queries.shape());
    d_keys.resize(keys.shape());
    d_vectors.resize(vectors.shape());
    d_betas.resize(betas.shape());
  }
  PositionScoresInput<T> input() const {
    return {.queries = queries, .keys = keys, .vectors = vectors, .betas = betas};
  }
  PositionScoresGradients<T> gradients() {
    return {.d_scores = d_scores,
            .d_queries = d_queries,
            .d_keys = d_keys,
            .d_vectors = d_vectors,
            .d_betas = d_betas};
  }
  void evaluate() { position_scores<T>(input(), layout, options, scores, *saved); }
  void run() {
    position_scores_forward<T>(input(), layout, options, scores, *saved);
    position_scores_backward<T>(input(), layout, options, gradients(), *saved);
  }

  /// Moves all of it to a device.
  void move_to(Device device) {
    for (Tensor<T>* x : {&queries, &keys, &vectors, &betas, &d_scores}) *x = x->copy(device);
    for (auto [name, x] : results()) *x = x->copy(device);
    saved = std::make_unique<Saved>(device);
  }
  /// Everything that a run writes, with its name.
  std::vector<std::pair<const char*, Tensor<T>*>> results() {
    return {{"scores", &scores},
            {"d_queries", &d_queries},
            {"d_keys", &d_keys},
            {"d_vectors", &d_vectors},
            {"d_betas", &d_betas}};
  }
};

}  // namespace orthornn::testing
