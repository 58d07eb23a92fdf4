#include "nn/decoder_attention.hpp"

#include "layers/step_order.hpp"
#include "orthornn/nn/attention.hpp"
#include "pointwise/matrices.hpp"

namespace orthornn {
namespace {

std::string query_prefix(const std::string& prefix) { return prefix + "/query"; }
std::string vector_prefix(const std::string& prefix) { return prefix + "/vector"; }

template <class T>
void copy_columns(MatrixView<const T> from, MatrixView<T> to) {
  copy_steps<T>(from, to, {.batch = 1, .lengths = {}, .reversed = false});
}

/// x <- tanh(x)
template <class T>
void apply_tanh(TensorView<T> x) {
  for_each(x.device(), x.size(), pointwise::Tanh<T>{x.data()});
}

/// d <- (1 - y^2) d: the backward from y = tanh(x).
template <class T>
void apply_tanh_backward(TensorView<const T> y, TensorView<T> d) {
  for_each(d.device(), d.size(), pointwise::TanhBackward<T>{y.data(), d.data()});
}

}  // namespace

template <class T>
void DecoderAttention<T>::add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                                         const Sizes& sizes) {
  LinearLayer<T>::add_parameters(parameters, query_prefix(prefix), sizes.state, sizes.key);
  LinearLayer<T>::add_parameters(parameters, vector_prefix(prefix), sizes.key + sizes.state, sizes.output);
}

template <class T>
DecoderAttention<T>::DecoderAttention(ParameterSet<T>& parameters, const std::string& prefix,
                                      const Sizes& sizes, const Execution& execution)
    : query_(parameters, query_prefix(prefix), sizes.state, sizes.key, execution),
      vector_(parameters, vector_prefix(prefix), sizes.key + sizes.state, sizes.output, execution) {}

template <class T>
void DecoderAttention<T>::initialize(std::uint64_t seed) {
  query_.initialize(seed);
  vector_.initialize(~seed);
}

template <class T>
void DecoderAttention<T>::prepare() {
  query_.prepare();
  vector_.prepare();
}

template <class T>
TensorView<const T> DecoderAttention<T>::forward(TensorView<const T> states, const Source& source,
                                                 Saved& saved) const {
  const Index length = states.shape()[0], batch = states.shape()[1];
  const Index key_size = query_.output_size();
  const TensorView<const T> queries = query_.forward({.vectors = states}, {}, {}, saved);
  const TensorView<T> weights = saved.push<T>({length, batch, source.keys.shape()[0]});
  const TensorView<T> contexts = saved.push<T>({length, batch, key_size});
  attention<T>({.queries = queries, .keys = source.keys, .lengths = source.lengths, .scale = scale()},
               weights, contexts);
  const TensorView<T> both = saved.push<T>({length, batch, vector_.input_size()});
  const MatrixView<T> columns = columns_of(both);
  copy_columns<T>(columns_of(contexts), columns.block(0, 0, key_size, columns.cols));
  copy_columns<T>(columns_of(states), columns.block(key_size, 0, query_.input_size(), columns.cols));
  vector_.forward({.vectors = both}, {}, {}, saved);
  const TensorView<T> y = saved.top<T>();
  apply_tanh(y);
  return y;
}

template <class T>
void DecoderAttention<T>::backward(TensorView<const T> states, const Source& source, TensorView<T> d_y,
                                   TensorView<T> d_states, TensorView<T> d_keys, Saved& saved,
                                   Saved& scratch) const {
  const Index length = states.shape()[0], batch = states.shape()[1];
  const Index key_size = query_.output_size();
  const Saved::Scope scope(scratch);
  // 1. The map of context and state.
  apply_tanh_backward<T>(saved.top<T>(), d_y);
  const TensorView<T> d_both = scratch.push<T>({length, batch, vector_.input_size()});
  vector_.backward({.vectors = saved.top<T>(1)}, {.d_output = d_y, .d_input = d_both}, saved, scratch);
  const TensorView<T> d_contexts = scratch.push<T>({length, batch, key_size});
  const MatrixView<const T> d_columns = columns_of(d_both);
  copy_columns<T>(d_columns.block(0, 0, key_size, d_columns.cols), columns_of(d_contexts));
  copy_columns<T>(d_columns.block(key_size, 0, query_.input_size(), d_columns.cols), columns_of(d_states));
  // 2. Attention. On `saved` are queries, weights, contexts, and context and state.
  const TensorView<T> d_queries = scratch.push<T>(d_contexts.shape());
  attention_backward<T>(
      {.queries = saved.top<T>(3), .keys = source.keys, .lengths = source.lengths, .scale = scale()},
      saved.top<T>(2), {.d_contexts = d_contexts, .d_queries = d_queries, .d_keys = d_keys}, scratch);
  saved.pop(3);
  // 3. The queries.
  query_.backward({.vectors = states}, {.d_output = d_queries, .d_input = d_states, .input = Gradients::add},
                  saved, scratch);
}

template class DecoderAttention<float>;
template class DecoderAttention<double>;

}  // namespace orthornn
