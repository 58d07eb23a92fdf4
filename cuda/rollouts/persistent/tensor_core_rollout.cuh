#pragma once
// The recurrence on tensor cores, over a cluster of blocks.
//
// A block keeps its rows of Q (of Q^T backward) on chip through all steps (tensor_core_product.cuh). A step:
//   1. receive: the state of the last step arrives from all blocks.
//   2. multiply: each warp multiplies its rows by a part of the columns. The warps of the same rows exchange
//      their sums through shared memory, and each finishes eight of the rows.
//   3. finish: each thread makes the new state of its elements and publishes it.

#include "cuda/rollouts/persistent/step_order.cuh"
#include "cuda/rollouts/persistent/tensor_core_product.cuh"
#include "cuda/rollouts/rollout_element.cuh"

namespace orthornn::cuda {

/// What a thread of `tensor_core_rollout` does in a step, with what it carries through time, which lies in
/// registers as that of PersistentThread.
template <Direction direction, class Shape>
struct TensorCoreThread {
  using Operands = typename Shape::Operands;
  using Element = RolloutElement<float, direction>;
  using Input = typename Element::Input;
  static constexpr int owned = Shape::owned;

  const RolloutArguments<float>& arguments;
  const StepOrder<direction>& order;
  const typename Shape::Exchange& exchange;
  const TensorCorePlace<Shape>& place;
  const TensorCoreWeights<Shape>& weights;
  float* sum_memory;
  const Element (&elements)[owned];
  /// That of the step that is finished next.
  const StepPlace& at;
  /// Inputs come into registers a step before they are needed, and not through shared memory as in
  /// persistent_rollout: with N = 1024 that is full.
  Input (&inputs)[owned];

  /// (Q x)_row, or (Q^T x)_row, for this thread's elements.
  __device__ __forceinline__ void multiply(int number, float (&products)[owned]) const {
    const WarpSums<Shape> sums(place, weights, exchange, number);
    add_over_warps(place, sums, sum_memory, products);
  }
  __device__ __forceinline__ void publish(int number, const float (&x)[owned]) const {
#pragma unroll
    for (int unit = 0; unit < Shape::units; ++unit) {
#pragma unroll
      for (int octet = 0; octet < Operands::octets; ++octet) {
        const int first = unit * Operands::lane_sequences + octet * Operands::lane_octet_sequences,
                  column = 8 * octet + 2 * place.l;
#pragma unroll
        for (int term = 0; term < Operands::operand_terms; ++term) {
          const __nv_bfloat162 pair = Operands::split(x + first, term);
          exchange.store(number, place.row_of(first), term, column, pair.x);
          exchange.store(number, place.row_of(first), term, column + 1, pair.y);
        }
      }
    }
    exchange.commit(number, place.own_row() / 8);
  }
  __device__ __forceinline__ void load_inputs(int step, StepPlace from) const {
#pragma unroll
    for (int i = 0; i < owned; ++i) inputs[i] = load_input(elements[i], arguments, order.time(step), from);
  }
  /// Finishes and publishes, as number `number`, what step `step` makes of products.
  __device__ __forceinline__ void finish(int step, int number, const float (&products)[owned]) const {
    float values[owned];
#pragma unroll
    for (int i = 0; i < owned; ++i)
      values[i] = elements[i].value(arguments, order.time(step), products[i], inputs[i]);
    if (number < order.length) publish(number, values);
#pragma unroll
    for (int i = 0; i < owned; ++i)
      elements[i].keep(arguments, order.time(step), at, products[i], inputs[i], values[i]);
    if (step + 1 < order.length) load_inputs(step + 1, at + order.stride);
  }
  /// Publishes number 0: h_0, or g of the last step.
  __device__ __forceinline__ void start() const {
    load_inputs(0, at);
    if constexpr (direction == Direction::forward) {
      float values[owned];
#pragma unroll
      for (int i = 0; i < owned; ++i) values[i] = elements[i].start(arguments);
      publish(0, values);
    } else {
      finish(0, 0, {});
    }
  }
  /// Backward: dh_0 from the products of the first step in time.
  __device__ __forceinline__ void end(const float (&products)[owned]) const {
    if constexpr (direction == Direction::backward) {
#pragma unroll
      for (int i = 0; i < owned; ++i) elements[i].end(arguments, products[i]);
    }
  }
};

/// N padded to the rows of a cluster, which carries `sequences` <= most_sequences.
///
/// Only what is multiplied is rounded: sums, activations and the states that are kept are float.
template <Direction direction, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    tensor_core_rollout(RolloutArguments<float> arguments, const float* q, int sequences) {
  using Operands = typename Shape::Operands;
  using Exchange = typename Shape::Exchange;
  using Thread = TensorCoreThread<direction, Shape>;
  constexpr bool forward = direction == Direction::forward;

  // 1. What stays: operands of Q, and the elements that this thread finishes.
  unsigned char* const memory = dynamic_shared_memory();
  unsigned char* const sum_memory = memory + Shape::weight_bytes + Exchange::shared_bytes;
  const Exchange exchange(memory + Shape::weight_bytes, sequences * Operands::column_terms);
  Exchange::begin();
  const TensorCorePlace<Shape> place;
  const Index first_row = Index{Exchange::rank()} * Shape::block_rows, n = arguments.hidden_size;
  TensorCoreWeights<Shape> weights;
  weights.load(place, reinterpret_cast<uint4*>(memory), reinterpret_cast<uint4*>(sum_memory),
               [&](int block_row, int column) {
                 const int row = static_cast<int>(first_row) + block_row, size = static_cast<int>(n);
                 return row < size && column < size ? q[forward ? row * size + column : column * size + row]
                                                    : 0.0f;
               });
  typename Thread::Element elements[Shape::owned];
  const Index first_sequence = Index{blockIdx.x / Shape::blocks} * sequences;
#pragma unroll
  for (int i = 0; i < Shape::owned; ++i) {
    const int s = place.sequence_of(i);
    elements[i] = typename Thread::Element(arguments, first_row + place.row_of(i),
                                           s < sequences ? first_sequence + s : arguments.batch);
  }

  // 2. Through time, as in persistent_rollout. Forward, published number t is h_t, and step t makes h_{t+1}
  // of it; backward, step t publishes its own g_t.
  const StepOrder<direction> order(arguments);
  StepPlace at = place_of_step(arguments, order.time(0));
  typename Thread::Input inputs[Shape::owned];
  const Thread own{arguments, order, exchange, place, weights, reinterpret_cast<float*>(sum_memory),
                   elements,  at,    inputs};
  own.start();
  if constexpr (!forward) at += order.stride;
  for (int number = 0; number < order.length; ++number, at += order.stride) {
    const int step = forward ? number : number + 1;
    float products[Shape::owned];
    exchange.receive(number);
    own.multiply(number, products);
    if (forward || step < order.length) {
      own.finish(step, number + 1, products);
    } else {
      own.end(products);
    }
  }
  Exchange::end();
}

}  // namespace orthornn::cuda
