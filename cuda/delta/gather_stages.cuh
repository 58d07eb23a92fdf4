#pragma once
// How values come to gather_gradients.cuh: a ring of stages of 32 values in shared memory. Stages are
// numbered: first all values with the gradients of the state, then all values with the state.

#include "cuda/delta/gather_shape.cuh"

namespace orthornn::cuda {

template <class Shape>
struct GatherStages {
  using E = typename Shape::E;
  struct Stage {
    typename Shape::StateTile state;
    E* all_d_errors;
    typename Shape::ValueTile d_outputs;
    // First errors. Then, for decays, the gradient of the state beside the state, in the same place.
    E* all_errors;
    typename Shape::StateTile d_state;

    __device__ __forceinline__ typename Shape::ErrorTile errors(int chunk) const {
      return {all_errors + chunk * Shape::values * Shape::chunk_rows};
    }
    __device__ __forceinline__ typename Shape::ErrorTile d_errors(int chunk) const {
      return {all_d_errors + chunk * Shape::values * Shape::chunk_rows};
    }
  };

  const GatherThread<Shape>& t;
  /// Of the chunks' state.
  Index state_slot;
  ChunkRows<const E> d_output_rows = token_rows(t.gradients.d_outputs, t.a.sizes.value, t.a.sizes, t.place);
  /// Stages with the gradients of the state, and as many with the state.
  int value_stages = t.a.sizes.padded_value / Shape::values;
  /// Chunks that have tokens.
  int present = Shape::chunks == 1 || t.place.tokens > t.a.sizes.tokens ? Shape::chunks : Shape::chunks - 1;
  static_assert(Shape::chunks <= 2);

  __device__ __forceinline__ Stage stage(int ring) const {
    E* const state = reinterpret_cast<E*>(t.memory + ring * Shape::stage_bytes);
    E* const d_errors = state + Shape::values * Shape::padded_key;
    E* const d_outputs = d_errors + Shape::values * Shape::steps;
    E* const last = d_outputs + Shape::ValueTile::bytes(Shape::padded_tokens) / sizeof(E);
    return {{state}, d_errors, {d_outputs}, last, {last}};
  }

  __device__ __forceinline__ void initialize_barriers() const {
    if (t.thread == 0) {
      for (int i = 0; i < Shape::stages; ++i) ptx::mbarrier_initialize(t.barriers + i, Shape::threads + 1);
      ptx::mbarrier_fence_initialization();
    }
  }
  /// Where the sequence ends before the last chunk no copy brings its errors.
  __device__ __forceinline__ void clear_missing_chunk() const {
    if (present < Shape::chunks) {
      for (int i = t.thread; i < Shape::stages * Shape::values * Shape::chunk_rows; i += Shape::threads) {
        const Stage s = stage(i / (Shape::values * Shape::chunk_rows));
        const int place_in_tile = i % (Shape::values * Shape::chunk_rows);
        s.errors(Shape::chunks - 1).data[place_in_tile] = E(0.0F);
        s.d_errors(Shape::chunks - 1).data[place_in_tile] = E(0.0F);
      }
      ptx::fence_proxy_async();  // gradients of states may be copied to the same place
    }
  }
  __device__ __forceinline__ void load_first() const {
#pragma unroll
    for (int i = 0; i < Shape::stages; ++i) load(i, i);
  }

  /// Calls body(stage) for the stages from `first` on, `value_stages` of them. `ring` is the place of the
  /// next.
  template <class Body>
  __device__ __forceinline__ void for_each(int first, int& ring, const Body& body) const {
#pragma unroll 1
    for (int number = first; number < first + value_stages; ++number) {
      wait(number, ring);
      body(stage(ring));
      __syncthreads();
      load(number + Shape::stages, ring);
      ring = ring + 1 == Shape::stages ? 0 : ring + 1;
    }
  }

 private:
  __device__ __forceinline__ void load(int number, int ring) const {
    if (number >= 2 * value_stages) return;
    const Stage s = stage(ring);
    const ChunkedArguments<E>& a = t.a;
    const ChunkedGradients<E>& gradients = t.gradients;
    std::uint64_t* const barrier = t.barriers + ring;
    const bool first = number < value_stages;
    const int value = (first ? number : number - value_stages) * Shape::values;
    // One thread starts all copies: they took longer when the warps took turns.
    if (t.thread == 0) {
      constexpr unsigned state_bytes = Shape::StateTile::bytes(Shape::values),
                         error_bytes = Shape::error_bytes;
      const bool both = Shape::decays && !first;
      ptx::mbarrier_arrive_expect(barrier,
                                  (both ? 2 : 1) * state_bytes + (first ? 2 : 1) * present * error_bytes);
      const Index state = (state_slot * a.sizes.padded_value + value) * Shape::padded_key;
      ptx::copy_bulk_to_shared(s.state.data, (first ? gradients.d_states : a.states) + state, state_bytes,
                               barrier);
      if (both) ptx::copy_bulk_to_shared(s.d_state.data, gradients.d_states + state, state_bytes, barrier);
      for (int i = 0; i < present; ++i) {
        const Index errors = (t.group.chunk(i).slot * a.sizes.padded_value + value) * Shape::chunk_rows;
        if (first) ptx::copy_bulk_to_shared(s.errors(i).data, a.errors + errors, error_bytes, barrier);
        ptx::copy_bulk_to_shared(s.d_errors(i).data, gradients.d_errors + errors, error_bytes, barrier);
      }
    }
    load_rows<Shape::threads, Shape::padded_tokens>(t.thread, s.d_outputs, Shape::padded_tokens,
                                                    d_output_rows, a.sizes.value, value, t.place.tokens,
                                                    a.aligned_values);
    if (a.aligned_values) {
      ptx::cp_async_mbarrier_arrive(barrier);
    } else {
      ptx::mbarrier_arrive(barrier);
    }
  }
  __device__ __forceinline__ void wait(int number, int ring) const {
    ptx::mbarrier_wait(t.barriers + ring, static_cast<unsigned>(number / Shape::stages) % 2);
    ptx::fence_proxy_async();  // wgmma reads what threads have copied
  }
};

}  // namespace orthornn::cuda
