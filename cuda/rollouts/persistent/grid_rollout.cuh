#pragma once
// A recurrence on tensor cores where no cluster can hold its matrix: over groups of blocks of the whole GPU.
//
// A block keeps its rows of the matrix as operands of mma.sync: in shared memory, and what has no room there
// in the L2 cache. As few blocks as hold the matrix are a group; each group carries its share of the batch
// and knows nothing of the others. Each eight warps of a block carry a set of sequences of their own. A block
// has one set or two: while the state of one travels, the other is multiplied. A step of a set:
//   1. read: each warp reads its slice of the state from the L2 cache straight into registers, until all of
//      it has come.
//   2. multiply: it multiplies all rows of the block by that slice.
//   3. add: warps exchange their sums through shared memory. Each is left with an eighth of them.
//   4. finish: each thread makes the new state of its elements and writes it for the others.
//
// Shared memory: sums [sets][items][gates][7][32 lanes], then operands [8 slices][resident chunks].

#include "cuda/products/grid_shapes.hpp"
#include "cuda/rollouts/persistent/grid_arguments.cuh"
#include "cuda/rollouts/persistent/grid_sums.cuh"
#include "cuda/rollouts/rollout_arguments.hpp"

namespace orthornn::cuda {

/// Where a thread stands in its block, and its elements there: element j is one unit of one sequence.
template <class Shape>
struct GridPlace {
  int lane = static_cast<int>(threadIdx.x) % 32;
  /// Of the warps of its set.
  int warp = static_cast<int>(threadIdx.x) / 32 % grid_slices;
  int g = lane / 4, l = lane % 4;

  __device__ __forceinline__ int item(int j) const { return j / 2 * grid_slices + warp; }
  __device__ __forceinline__ bool has(int j) const { return item(j) < Shape::items; }
  /// The unit in the block, and the sequence in the set.
  __device__ __forceinline__ int unit(int j) const {
    return item(j) / 2 % Shape::unit_tiles * 16 + item(j) % 2 * 8 + g;
  }
  __device__ __forceinline__ int sequence(int j) const {
    return item(j) / 2 / Shape::unit_tiles * 8 + 2 * l + j % 2;
  }
};

/// products[j] = the sums over the eight warps for element j, in an order that does not change.
template <class Shape>
__device__ __forceinline__ void add_over_slices(const GridPlace<Shape>& place, const GridSums<Shape>& sums,
                                                float2* memory, int barrier,
                                                float (&products)[Shape::own][Shape::gates]) {
  constexpr int others = grid_slices - 1;
  const auto slot = [&](int item, int gate, int number) {
    return memory + ((item * Shape::gates + gate) * others + number) * 32 + place.lane;
  };
#pragma unroll
  for (int i = 0; i < Shape::items; ++i) {
    const int owner = i % grid_slices, j = i / grid_slices * 2;
#pragma unroll
    for (int gate = 0; gate < Shape::gates; ++gate) {
      const float2 sum = sums.of(i, gate);
      if (owner == place.warp) {
        products[j][gate] = sum.x, products[j + 1][gate] = sum.y;
      } else {
        *slot(i, gate, (place.warp - owner - 1) & others) = sum;
      }
    }
  }
  named_barrier<grid_set_threads>(barrier);
#pragma unroll
  for (int j = 0; j < Shape::own; j += 2) {
    if (!place.has(j)) break;
#pragma unroll
    for (int gate = 0; gate < Shape::gates; ++gate) {
#pragma unroll
      for (int number = 0; number < others; ++number) {
        const float2 x = *slot(place.item(j), gate, number);
        products[j][gate] += x.x, products[j + 1][gate] += x.y;
      }
    }
  }
}

/// What a thread does for a set of sequences. An Element is one unit of one sequence:
///   Element(arguments, unit, sequence)   may lie beyond N or B; then it computes zeros and touches no memory
///   load(arguments, t) -> Work           what step t reads
///   start(arguments, x)                  forward: what is published of the first state
///   step(arguments, t, products, work, x)  what is published of step t
///   keep(arguments, t, work)             writes what else there is of the step
///   end(arguments, products)             backward: after the last step
template <class Shape, class Element>
class GridSet {
  using Operands = typename Shape::Operands;
  using Exchanged = typename Operands::Exchanged;
  using Arguments = typename Element::Arguments;
  using Products = float[Shape::own][Shape::gates];

 public:
  __device__ __forceinline__ GridSet(const Arguments& arguments, const GridArguments& grid)
      : arguments_(arguments), grid_(grid) {
    take(0);
  }

  /// Makes it that of a round. Says whether there are such sequences.
  __device__ __forceinline__ bool take_round(int round) {
    if (grid_.rounds > 1) take(round);
    return exists_;
  }
  __device__ __forceinline__ void load(int t) {
    for_each([&](int j) { work_[j] = elements_[j].load(arguments_, t); });
  }
  /// Reads number `number` and multiplies it.
  __device__ __forceinline__ void multiply(int number, const uint4* resident, float2* sum_memory,
                                           Products& products) const {
    const int first = first_chunk(grid_.chunks, place_.warp);
    const int count = first_chunk(grid_.chunks, place_.warp + 1) - first;
    const Exchanged* const from =
        state(number) + place_.g * grid_.stride + first * Operands::chunk + place_.l * Operands::lane_numbers;
    GridSums<Shape> sums(from, grid_.stride, count);
    const Index others = (static_cast<Index>(member()) * grid_.chunks + first) * Shape::chunk_operands;
    sums.multiply(resident + place_.warp * grid_.resident * Shape::chunk_operands + place_.lane,
                  grid_.resident, grid_.weights + others + place_.lane);
    if (number % steps_between_fences == 0) fence_between_steps();
    add_over_slices(place_, sums, sum_memory, barrier(), products);
  }
  /// Finishes and publishes, as number `number`, what the step at time t makes of products.
  __device__ __forceinline__ void finish(int t, int number, const Products& products) {
    float x[Shape::own][Shape::published] = {};
    for_each([&](int j) { elements_[j].step(arguments_, t, products[j], work_[j], x[j]); });
    if (number < arguments_.length) publish(number, x);
    for_each([&](int j) { elements_[j].keep(arguments_, t, work_[j]); });
    // Everyone has read the sums, which are overwritten next.
    named_barrier<grid_set_threads>(barrier());
  }
  /// Forward: publishes the first states.
  __device__ __forceinline__ void start() {
    float x[Shape::own][Shape::published] = {};
    for_each([&](int j) { elements_[j].start(arguments_, x[j]); });
    publish(0, x);
  }
  /// Backward: after the last step.
  __device__ __forceinline__ void end(const Products& products) {
    for_each([&](int j) { elements_[j].end(arguments_, products[j]); });
    // The next round overwrites the sums.
    named_barrier<grid_set_threads>(barrier());
  }

 private:
  __device__ __forceinline__ void take(int round) {
    const int group = static_cast<int>(blockIdx.x) / grid_.blocks;
    const int number = (group * Shape::sets + part()) * grid_.rounds + round;
    const int first = grid_.first_sequence + number * grid_.sequences;
    const int left = static_cast<int>(arguments_.batch) - first;
    const int sequences = left < grid_.sequences ? left : grid_.sequences;
    exists_ = sequences > 0;
    states_ = static_cast<Exchanged*>(grid_.states) +
              static_cast<Index>(number) * grid_buffers * Shape::sequences * grid_.stride;
    for_each([&](int j) {
      const int s = place_.sequence(j);
      elements_[j] = Element(arguments_, member() * Shape::units + place_.unit(j),
                             s < sequences ? first + s : static_cast<int>(arguments_.batch));
    });
  }
  static __device__ __forceinline__ int part() { return static_cast<int>(threadIdx.x) / grid_set_threads; }
  static __device__ __forceinline__ int barrier() { return 1 + part(); }
  __device__ __forceinline__ int member() const { return static_cast<int>(blockIdx.x) % grid_.blocks; }
  __device__ __forceinline__ Exchanged* state(int number) const {
    return states_ + static_cast<Index>(number % grid_buffers) * Shape::sequences * grid_.stride;
  }
  template <class Body>
  __device__ __forceinline__ void for_each(const Body& body) const {
#pragma unroll
    for (int j = 0; j < Shape::own; ++j) {
      if (place_.has(j)) body(j);
    }
  }
  __device__ __forceinline__ void publish(int number, const float (&x)[Shape::own][Shape::published]) const {
    Exchanged* const to = state(number);
    for_each_word(x, [&](int at, unsigned word) { store_word(to + at, writable(word)); });
    // The state before the one that was multiplied: everyone has read it (grid_exchange.cuh).
    Exchanged* const read = state(number + grid_buffers - 2);
    for_each_word(x, [&](int at, unsigned) { store_word(read + at, unwritten); });
  }
  /// Calls body(place, word) for the words that this lane writes. Words of bfloat16 hold two units, of which
  /// neighbouring lanes have one each: each lane takes one of their two sequences.
  template <class Body>
  __device__ __forceinline__ void for_each_word(const float (&x)[Shape::own][Shape::published],
                                                const Body& body) const {
#pragma unroll
    for (int j = 0; j < Shape::own; j += 2) {
      if (!place_.has(j)) break;
#pragma unroll
      for (int p = 0; p < Shape::published; ++p) {
        const int column = p * grid_.blocks * Shape::units + member() * Shape::units + place_.unit(j);
        const int sequence = place_.sequence(j);
        if constexpr (Operands::terms == 1) {
          const bool odd = place_.g % 2 != 0;
          const float other = __shfl_xor_sync(whole_warp, odd ? x[j][p] : x[j + 1][p], 4);
          body((sequence + odd) * grid_.stride + (column & ~1),
               odd ? bf16_term_of(other, x[j + 1][p], 0) : bf16_term_of(x[j][p], other, 0));
        } else {
          body(sequence * grid_.stride + column, Operands::word_of(x[j][p]));
          body((sequence + 1) * grid_.stride + column, Operands::word_of(x[j + 1][p]));
        }
      }
    }
  }

  const Arguments& arguments_;
  const GridArguments& grid_;
  bool exists_;
  Exchanged* states_;
  GridPlace<Shape> place_;
  Element elements_[Shape::own];
  typename Element::Work work_[Shape::own];
};

template <class Shape, class Element>
__global__ void __launch_bounds__(Shape::threads, 1)
    grid_rollout(typename Element::Arguments arguments, GridArguments grid) {
  constexpr bool forward = Element::direction == Direction::forward;
  unsigned char* const memory = dynamic_shared_memory();
  float2* const sum_memory =
      reinterpret_cast<float2*>(memory + threadIdx.x / grid_set_threads * Shape::sum_bytes);
  uint4* const resident = reinterpret_cast<uint4*>(memory + Shape::sets * Shape::sum_bytes);
  const int member = static_cast<int>(blockIdx.x) % grid.blocks;

  // 1. What stays.
  for (int slice = 0; slice < grid_slices; ++slice) {
    const int first = first_chunk(grid.chunks, slice), count = first_chunk(grid.chunks, slice + 1) - first;
    const int operands = (count < grid.resident ? count : grid.resident) * Shape::chunk_operands;
    const uint4* const from =
        grid.weights + (static_cast<Index>(member) * grid.chunks + first) * Shape::chunk_operands;
    for (int i = static_cast<int>(threadIdx.x); i < operands; i += Shape::threads)
      resident[slice * grid.resident * Shape::chunk_operands + i] = __ldcg(from + i);
  }
  __syncthreads();

  // 2. Through time. Forward, published number t is h_t, and step t makes h_{t+1} of it. Backward, number i
  // is the gradient of the step i before the last.
  const int length = static_cast<int>(arguments.length);
  const auto time = [&](int step) { return forward ? step : length - 1 - step; };
  GridSet<Shape, Element> own(arguments, grid);
  float products[Shape::own][Shape::gates] = {};
  for (int round = 0; round < grid.rounds; ++round) {
    if (!own.take_round(round)) continue;
    if constexpr (forward) {
      own.start();
    } else {
      own.load(time(0));
      own.finish(time(0), 0, products);
    }
  }
  for (int number = 0; number < length; ++number) {
    const int step = forward ? number : number + 1;
    for (int round = 0; round < grid.rounds; ++round) {
      if (!own.take_round(round)) continue;
      if (step < length) own.load(time(step));
      own.multiply(number, resident, sum_memory, products);
      if (step < length) {
        own.finish(time(step), number + 1, products);
      } else {
        own.end(products);
      }
    }
  }
}

}  // namespace orthornn::cuda
