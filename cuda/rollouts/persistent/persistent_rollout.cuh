#pragma once

#include "cuda/rollouts/persistent/input_ring.cuh"
#include "cuda/rollouts/persistent/persistent_tile.cuh"
#include "cuda/rollouts/persistent/state_exchange.cuh"
#include "cuda/rollouts/persistent/step_order.cuh"

namespace orthornn::cuda {

/// What a thread of `persistent_rollout` does in a step, with what it carries through time. It has references
/// alone, and the compiler keeps what they refer to in registers: where one struct held all of it, a thread
/// took up to ten registers more.
template <Direction direction, class Tile, class Exchange, int Group, int Groups, int Ahead>
struct PersistentThread {
  using Element = RolloutElement<float, direction>;
  using Input = typename Element::Input;
  using State = StateColumns<Tile>;
  using Owned = OwnedElements<Tile, Group, Exchange::copies_send>;
  static constexpr int owned_count = Owned::count;
  static constexpr int threads = Tile::threads(Exchange::rows);
  using Ring = InputRing<Element, Ahead, Groups * owned_count, threads>;
  using Weights = PersistentWeights<direction, Tile, threads>;
  /// Shared memory of the exchanges, of the ring and of the weights, one after another.
  static constexpr std::size_t ring_place = Groups * Exchange::shared_bytes,
                               weights_place = ring_place + Ring::shared_bytes,
                               shared_bytes = weights_place + Weights::shared_bytes;

  const RolloutArguments<float>& arguments;
  const StepOrder<direction>& order;
  const Exchanges<Exchange, Groups>& exchanges;
  const Ring& ring;
  const Weights& weights;
  const Owned& owned;
  /// [Groups][owned_count]
  const Element (&elements)[Groups * owned_count];
  /// That of the step whose inputs are taken.
  const StepPlace& place;

  /// Starts fetching the inputs of the first steps.
  __device__ __forceinline__ void fetch_first_inputs() const {
#pragma unroll
    for (int step = 0; step < Ahead - 1; ++step)
      ring.fetch(arguments, elements, step, step < order.length, place + step * order.stride);
  }
  /// Before the inputs of a step are taken.
  __device__ __forceinline__ void advance_inputs(int step) const {
    const int ahead = step + Ahead - 1;
    ring.fetch(arguments, elements, ahead, ahead < order.length, place + (Ahead - 1) * order.stride);
    ring.wait();
  }
  __device__ __forceinline__ void take_inputs(int step, int group, Input (&inputs)[owned_count]) const {
#pragma unroll
    for (int i = 0; i < owned_count; ++i) {
      const int number = group * owned_count + i;
      inputs[i] = ring.take(arguments, elements[number], step, number, order.time(step));
    }
  }
  __device__ __forceinline__ State read(int number, int group, int sequence) const {
    State state;
    state.read(exchanges[group], number, sequence);
    return state;
  }
  /// (Q x)_row, or (Q^T x)_row, for this thread's elements of a group, whose first sequence has been read.
  __device__ __forceinline__ void multiply(int number, int group, State state,
                                           float (&products)[owned_count]) const {
    float sums[Tile::row_count * Group];
#pragma unroll
    for (int s = 0; s < Group; ++s) {
      if (s > 0) state = read(number, group, s);
      weights.multiply(state, sums + s * Tile::row_count);
    }
    weights.template add_shared<Group>(exchanges[group], number, sums);
    owned.add_over_lanes(sums);
#pragma unroll
    for (int i = 0; i < owned_count; ++i) products[i] = sums[i];
  }
  __device__ __forceinline__ void publish(int number, int group, const float (&x)[owned_count]) const {
#pragma unroll
    for (int i = 0; i < owned_count; ++i) {
      if (owned.exists(i)) exchanges[group].store(number, owned.row(), owned.sequence(i), x[i]);
    }
    exchanges[group].commit(number);
  }
  /// Finishes and publishes, as number `number`, what step `step` makes of products.
  __device__ __forceinline__ void finish(int step, int number, int group,
                                         const float (&products)[owned_count],
                                         const Input (&inputs)[owned_count]) const {
    const Element* const own = elements + group * owned_count;
    float x[owned_count];
#pragma unroll
    for (int i = 0; i < owned_count; ++i)
      x[i] = own[i].value(arguments, order.time(step), products[i], inputs[i]);
    if (number < order.length) publish(number, group, x);
#pragma unroll
    for (int i = 0; i < owned_count; ++i)
      own[i].keep(arguments, order.time(step), place, products[i], inputs[i], x[i]);
  }
  /// Publishes number 0: h_0, or g of the last step.
  __device__ __forceinline__ void start(int group) const {
    if constexpr (direction == Direction::forward) {
      float x[owned_count];
#pragma unroll
      for (int i = 0; i < owned_count; ++i) x[i] = elements[group * owned_count + i].start(arguments);
      publish(0, group, x);
    } else {
      Input inputs[owned_count];
      take_inputs(0, group, inputs);
      // Lanes that share an element read its gradient each by itself, and may write theirs to the same place.
      // In later steps the sums over lanes lie between.
      if constexpr (Exchange::copies_send) __syncwarp();
      finish(0, 0, group, {}, inputs);
    }
  }
  /// Backward: dh_0 from the products of the first step in time.
  __device__ __forceinline__ void end(int group, const float (&products)[owned_count]) const {
    if constexpr (direction == Direction::backward) {
#pragma unroll
      for (int i = 0; i < owned_count; ++i) elements[group * owned_count + i].end(arguments, products[i]);
    }
  }
};

/// The recurrence in fp32, for Group sequences a block (or cluster) that share each pass over the weights,
/// times `Groups` of such groups, which have nothing to do with one another: while the state of one travels,
/// the next is multiplied. The loop over time is inside; the exchange is all that threads wait for.
///
/// A step: receive h_{t-1} (g_{t+1}), multiply by Q (Q^T), finish h_t (g_t), publish it. Inputs are loaded
/// `Ahead` - 1 steps before they are needed.
template <Direction direction, class Tile, class Exchange, int Group, int Groups, int Ahead>
__global__ void __launch_bounds__(Tile::threads(Exchange::rows), 1)
    persistent_rollout(RolloutArguments<float> arguments, const float* q) {
  using Thread = PersistentThread<direction, Tile, Exchange, Group, Groups, Ahead>;
  constexpr bool forward = direction == Direction::forward;

  // 1. What stays: the weights, and the elements that this thread owns.
  const Exchanges<Exchange, Groups> exchanges(dynamic_shared_memory());
  const typename Thread::Ring ring(dynamic_shared_memory() + Thread::ring_place);
  const Index first_row = Index{Exchange::rank()} * Exchange::rows, n = arguments.hidden_size;
  const typename Thread::Weights weights(q, n, first_row, dynamic_shared_memory() + Thread::weights_place);
  const typename Thread::Owned owned;
  constexpr int owned_count = Thread::owned_count;
  typename Thread::Element elements[Groups * owned_count];
#pragma unroll
  for (int group = 0; group < Groups; ++group) {
    const Index first_sequence = (Index{blockIdx.x / Exchange::blocks} * Groups + group) * Group;
#pragma unroll
    for (int i = 0; i < owned_count; ++i) {
      elements[group * owned_count + i] = typename Thread::Element(
          arguments, owned.exists(i) ? first_row + owned.row() : n, first_sequence + owned.sequence(i));
    }
  }

  // 2. Through time.
  const StepOrder<direction> order(arguments);
  StepPlace place = place_of_step(arguments, order.time(0));
  const Thread own{arguments, order, exchanges, ring, weights, owned, elements, place};
  own.fetch_first_inputs();
  if constexpr (!forward) own.advance_inputs(0);
#pragma unroll
  for (int group = 0; group < Groups; ++group) own.start(group);
  if constexpr (!forward) place += order.stride;
  for (int number = 0; number < order.length; ++number, place += order.stride) {
    // Forward, published number t is h_t, and step t makes h_{t+1} of it; backward, step t publishes its own
    // g_t.
    const int step = forward ? number : number + 1;
#pragma unroll
    for (int group = 0; group < Groups; ++group) {
      typename Thread::Input inputs[owned_count] = {};
      const auto take_inputs = [&] {
        if (step >= order.length) return;
        if (group == 0) own.advance_inputs(step);
        own.take_inputs(step, group, inputs);
      };
      // While the state is on its way: from the other blocks, or from shared memory.
      if constexpr (Exchange::waits_longest) take_inputs();
      exchanges[group].receive(number);
      const typename Thread::State state = own.read(number, group, 0);
      if constexpr (!Exchange::waits_longest) take_inputs();
      float products[owned_count];
      own.multiply(number, group, state, products);
      if (forward || step < order.length) {
        own.finish(step, number + 1, group, products, inputs);
      } else {
        own.end(group, products);
      }
    }
  }
  Exchange::end();
}

/// Shared memory of such a block.
template <Direction direction, class Tile, class Exchange, int Group, int Groups, int Ahead>
inline constexpr std::size_t persistent_rollout_bytes =
    PersistentThread<direction, Tile, Exchange, Group, Groups, Ahead>::shared_bytes;

}  // namespace orthornn::cuda
