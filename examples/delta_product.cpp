// DeltaProduct alone: S <- (I - beta k k^T) S. With beta = 2 and k = (e_i - e_j) / sqrt 2 it swaps rows i and
// j, so S follows the balls under eight cups through a thousand swaps. Both forms agree, and so do their
// gradients.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <orthornn/orthornn.hpp>
using namespace orthornn;

constexpr Index swaps = 1000, cups = 8;  // one sequence, one head, one factor a token
const Shape query{swaps, 1, cups}, key{swaps, 1, 1, cups}, beta{swaps, 1, 1}, state{1, 1, cups, cups};

struct Result {
  Tensor<double> outputs{query}, states{state};
  Tensor<double> d_queries{query}, d_keys{key}, d_values{key}, d_betas{beta};
};

Result run(DeltaForm form, const DeltaProductInput<double>& input, const Tensor<double>& d_outputs) {
  const TokenLayout layout = TokenLayout::time_major(swaps, /*batch=*/1);
  const DeltaProductOptions options{.form = form, .unit_keys = true};
  Result r;
  Saved saved(Device::cpu());
  delta_product_forward<double>(input, layout, options, r.outputs, r.states, saved);
  delta_product_backward<double>(input, layout, options,
                                 {d_outputs, {}, r.d_queries, r.d_keys, r.d_values, r.d_betas}, saved);
  return r;
}

double difference(const Tensor<double>& a, const Tensor<double>& b) {
  double largest = 0;
  for (Index i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a.data()[i] - b.data()[i]));
  return largest;
}

int main() {
  Tensor<double> queries(query), keys(key), values(key), betas(beta), start(state), truth(query);
  Tensor<std::int32_t> balls = random_permutation(cups, RandomStream(1, RandomPurpose::shuffle));
  for (Index cup = 0; cup < cups; ++cup) start(0, 0, cup, balls(cup)) = 1;  // rows: cups, columns: balls
  RandomStream random(/*seed=*/1, RandomPurpose::training);
  for (Index t = 0; t < swaps; ++t) {
    const Index i = random.integer(cups), j = (i + 1 + random.integer(cups - 1)) % cups;
    keys(t, 0, 0, i) = 1;  // unit_keys divides by the norm
    keys(t, 0, 0, j) = -1;
    betas(t, 0, 0) = 2;
    queries(t, 0, 0) = 1;  // the output is the first cup's row
    std::swap(balls(i), balls(j));
    truth(t, 0, balls(0)) = 1;
  }
  const DeltaProductInput<double> input{
      .queries = queries, .keys = keys, .values = values, .betas = betas, .initial_states = start};
  const Result steps = run(DeltaForm::recurrent, input, truth);
  const Result chunks = run(DeltaForm::chunked, input, truth);
  const double error = difference(steps.outputs, truth);
  const double outputs = difference(steps.outputs, chunks.outputs);
  const double gradients = difference(steps.d_keys, chunks.d_keys);
  std::cout << "After " << swaps << " swaps the first cup has ball " << balls(0)
            << "; largest error on the way " << error << "\nRecurrent and chunked form: outputs differ by "
            << outputs << ", gradients by " << gradients << "\n";
  return error < 1e-10 && outputs < 1e-10 && gradients < 1e-8 ? 0 : 1;
}
