#pragma once
// How the threads of a persistent rollout tell each other the new state: two buffers take turns, one is read
// while the next is filled.

#include <cstdint>

#include "cuda/core/kernel.cuh"
#include "cuda/core/ptx.cuh"

namespace orthornn::cuda {

/// Within one block: the state of `Sequences` sequences lies in shared memory, [2][Sequences][Size].
template <int Size, int Sequences>
class BlockExchange {
 public:
  static constexpr unsigned blocks = 1;
  static constexpr int rows = Size;
  /// Whether all threads that have a number store it. Else one of them does.
  static constexpr bool copies_send = false;
  /// Whether threads wait for the state longer than for anything else.
  static constexpr bool waits_longest = false;
  static constexpr std::size_t shared_bytes = 2 * sizeof(float) * Size * Sequences;

  BlockExchange() = default;
  /// `memory` is shared and `shared_bytes` long.
  explicit __device__ BlockExchange(unsigned char* memory) : states_(reinterpret_cast<float*>(memory)) {}
  /// After all exchanges of a block have been made, before the first is used.
  static __device__ void begin() {}
  /// After the last use of all.
  static __device__ void end() {}
  static __device__ unsigned rank() { return 0; }

  /// Says one of this block's rows; `step` counts 0, 1, ..
  __device__ void store(int step, int row, int sequence, float value) const {
    buffer(step)[offset(row, sequence)] = value;
  }
  /// All rows of this step have been said. The other buffer has been read by everyone then.
  __device__ void commit(int) const { __syncthreads(); }
  /// All rows of all blocks have arrived.
  __device__ void receive(int) const {}
  /// Where columns `column` .. of the first sequence's state lie. A multiple of `rows` farther on, and
  /// sequences farther on, they lie `offset` farther.
  __device__ const float* columns(int step, int column) const { return buffer(step) + column; }
  static constexpr __device__ int offset(int column, int sequence) { return sequence * Size + column; }

 private:
  __device__ float* buffer(int step) const { return states_ + (step & 1) * Size * Sequences; }

  float* states_ = nullptr;
};

/// What a block of a cluster has received: `Numbers` from each of `Blocks` blocks, and a barrier in shared
/// memory that counts the arrivals and the bytes of a step.
///
/// Nothing is overwritten too early. A sender of step s + 1 has received step s from all others. Each of them
/// had read step s - 1 before it sent step s. Step s + 1 goes to the buffer of step s - 1. So all others have
/// read that buffer. This must hold for the warps of a block too. So all lanes of the block arrive at the
/// barrier, or the block sends to itself as well, or it has a barrier of its own before it sends.
///
/// The wait at the barrier acquires for the block alone, by PTX, and the numbers come from other blocks. All
/// of them lie in this block's shared memory and count at its barrier when they have arrived. CUTLASS waits
/// for multicast copies in the same way.
template <class ElementType, int Blocks, int Numbers>
class ClusterBuffers {
 public:
  using Element = ElementType;
  static constexpr unsigned blocks = Blocks;
  static constexpr std::size_t barrier_bytes = 128;
  static constexpr std::size_t shared_bytes = barrier_bytes + 2 * Blocks * Numbers * sizeof(Element);
  static_assert(Blocks > 1);

  static __device__ void begin() { ptx::cluster_synchronize(); }
  /// No block may end while others still write to its shared memory.
  static __device__ void end() { ptx::cluster_synchronize(); }
  static __device__ unsigned rank() { return ptx::cluster_rank(); }

  __device__ void receive(int step) const {
    std::uint64_t* const barrier = barrier_of(step);
    ptx::mbarrier_wait(barrier, static_cast<unsigned>(step >> 1) & 1);
    // For step + 2, whose phase cannot end before this: its first bytes may come earlier.
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect(barrier, bytes_of_step_);
  }

 protected:
  ClusterBuffers() = default;
  /// `memory` is shared and `shared_bytes` long. A step ends after `bytes_of_step`, `arrivals`, and one
  /// arrival of thread 0, which announces the bytes.
  __device__ ClusterBuffers(unsigned char* memory, unsigned bytes_of_step, unsigned arrivals)
      : rank_(rank()),
        bytes_of_step_(bytes_of_step),
        barriers_(reinterpret_cast<std::uint64_t*>(memory)),
        numbers_(reinterpret_cast<Element*>(memory + barrier_bytes)) {
    if (threadIdx.x != 0) return;
    for (int i = 0; i < 2; ++i) {
      ptx::mbarrier_initialize(barriers_ + i, 1 + arrivals);
      ptx::mbarrier_arrive_expect(barriers_ + i, bytes_of_step_);
    }
    ptx::mbarrier_fence_initialization();
  }

  __device__ std::uint64_t* barrier_of(int step) const { return barriers_ + (step & 1); }
  /// What all blocks sent, those of block 0 first.
  __device__ Element* buffer(int step) const { return numbers_ + (step & 1) * Blocks * Numbers; }
  /// Block i of those that this block sends to. The first is another one for each block, so that not all
  /// send to the same one at once.
  __device__ unsigned receiver(unsigned i) const {
    const unsigned rank = rank_ + 1 + i;
    return rank < Blocks ? rank : rank - Blocks;
  }
  /// What this block sends.
  __device__ Element* own(int step) const { return buffer(step) + static_cast<int>(rank_) * Numbers; }

  unsigned rank_ = 0;

 private:
  unsigned bytes_of_step_ = 0;
  /// That of even steps, and that of odd ones.
  std::uint64_t* barriers_ = nullptr;
  /// [2][Blocks][Numbers]
  Element* numbers_ = nullptr;
};

/// The exchanges of `Count` groups of sequences, whose shared memory lies one after another at `memory`.
template <class Exchange, int Count>
class Exchanges {
 public:
  explicit __device__ __forceinline__ Exchanges(unsigned char* memory) {
#pragma unroll
    for (int i = 0; i < Count; ++i) all_[i] = Exchange(memory + i * Exchange::shared_bytes);
    Exchange::begin();
  }
  __device__ __forceinline__ const Exchange& operator[](int i) const { return all_[i]; }

 private:
  Exchange all_[Count];
};

}  // namespace orthornn::cuda
