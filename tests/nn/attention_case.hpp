#pragma once

#include <limits>
#include <utility>
#include <vector>

#include "orthornn/nn/attention.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {

/// Attention with everything that goes into it and comes out, drawn at random.
template <class T>
struct AttentionCase {
  Device device;
  T scale;
  Tensor<T> queries, keys, d_contexts;
  Tensor<std::int32_t> lengths;
  Tensor<T> weights, contexts, d_queries, d_keys;
  Saved scratch;

  /// T, S and N; a sequence for each length.
  AttentionCase(Index steps, Index key_count, Index size, const std::vector<std::int32_t>& live, T by = T{1},
                Device where = Device::cpu())
      : device(where), scale(by), scratch(where) {
    const Index batch = static_cast<Index>(live.size());
    queries = normal_tensor<T>({steps, batch, size}, 1).copy(where);
    keys = normal_tensor<T>({key_count, batch, size}, 2).copy(where);
    d_contexts = normal_tensor<T>({steps, batch, size}, 3).copy(where);
    Tensor<std::int32_t> here(Shape{batch});
    std::copy(live.begin(), live.end(), here.begin());
    lengths = here.copy(where);
    weights = Tensor<T>({steps, batch, key_count}, where);
    contexts = Tensor<T>(queries.shape(), where);
    d_queries = Tensor<T>(queries.shape(), where);
    d_keys = Tensor<T>(keys.shape(), where);
  }

  AttentionInput<T> input() const {
    return {.queries = queries, .keys = keys, .lengths = lengths, .scale = scale};
  }
  void forward() { attention<T>(input(), weights, contexts); }
  void backward() {
    attention_backward<T>(input(), std::as_const(weights),
                          {.d_contexts = d_contexts, .d_queries = d_queries, .d_keys = d_keys}, scratch);
  }
};

/// NaN in the keys beyond each sequence's length, which must not be read.
template <class T>
void spoil_padding(AttentionCase<T>& c) {
  for (Index s = 0; s < c.keys.shape()[0]; ++s) {
    for (Index b = 0; b < c.lengths.size(); ++b) {
      if (s >= c.lengths(b)) c.keys(s, b, s % c.keys.shape()[2]) = std::numeric_limits<T>::quiet_NaN();
    }
  }
}

}  // namespace orthornn::testing
