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
  static constexpr int fewest_warps = 1;
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

/// What a block of a cluster has received: a slice [Sequences][Stride] from each of `Blocks` blocks with
/// `Rows` rows each, and a barrier in shared memory that counts the bytes of a step.
///
/// Why nothing is overwritten too early: block A sends step s + 1 after all its threads have read step s, and
/// B reads A's step s + 1 before it sends s + 2. So when B's s + 2 arrives at A, in the buffer of s, A has
/// done with it; and when B writes its own slice of s + 2, A has received the one of s, and B's threads have
/// read theirs.
///
/// The wait at the barrier acquires for the block alone, by PTX, and the numbers come from other blocks. All
/// of them lie in this block's shared memory and count at its barrier when they have arrived. CUTLASS waits
/// for multicast copies in the same way.
template <class ElementType, int Blocks, int Rows, int Sequences, int Stride>
class ClusterSlices {
 public:
  using Element = ElementType;
  static constexpr unsigned blocks = Blocks;
  static constexpr int rows = Rows;
  static constexpr int slice = Sequences * Stride;
  static constexpr std::size_t barrier_bytes = 128;
  static constexpr std::size_t shared_bytes = barrier_bytes + 2 * Blocks * slice * sizeof(Element);
  static_assert(Blocks > 1);

  static __device__ void begin() { ptx::cluster_synchronize(); }
  /// No block may end while others still write to its shared memory.
  static __device__ void end() { ptx::cluster_synchronize(); }
  static __device__ unsigned rank() { return ptx::cluster_rank(); }

  __device__ void receive(int step) const {
    std::uint64_t* barrier = barriers_ + (step & 1);
    ptx::mbarrier_wait(barrier, static_cast<unsigned>(step >> 1) & 1);
    // For step + 2, of which nobody can send anything before this block has sent step + 1.
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect(barrier, bytes_of_step_);
  }
  __device__ const Element* columns(int step, int column) const {
    return slices_ + (step & 1) * Blocks * slice + column / rows * slice + column % rows;
  }
  static constexpr __device__ int offset(int column, int sequence) {
    return column / rows * slice + sequence * Stride;
  }

 protected:
  ClusterSlices() = default;
  __device__ ClusterSlices(unsigned char* memory, unsigned bytes_of_step)
      : rank_(rank()),
        bytes_of_step_(bytes_of_step),
        barriers_(reinterpret_cast<std::uint64_t*>(memory)),
        slices_(reinterpret_cast<Element*>(memory + barrier_bytes)) {
    if (threadIdx.x != 0) return;
    for (int i = 0; i < 2; ++i) {
      ptx::mbarrier_initialize(barriers_ + i, 1);
      ptx::mbarrier_arrive_expect(barriers_ + i, bytes_of_step_);
    }
    ptx::mbarrier_fence_initialization();
  }

  __device__ Element* own_slice(int step) const {
    return slices_ + ((step & 1) * Blocks + static_cast<int>(rank_)) * slice;
  }

  unsigned rank_ = 0;
  unsigned bytes_of_step_ = 0;
  /// That of even steps, and that of odd ones.
  std::uint64_t* barriers_ = nullptr;
  /// [2][Blocks][Sequences][Stride]
  Element* slices_ = nullptr;
};

/// Over a cluster: every block writes its slice to where it reads it, and sends the first `sequences` of it
/// by a bulk copy to the same place of each other block. What is beyond those sequences is never written:
/// whoever reads it must not let it into what is kept.
template <class ElementType, int Blocks, int Rows, int Sequences, int Stride = Rows>
class ClusterExchange : public ClusterSlices<ElementType, Blocks, Rows, Sequences, Stride> {
  using Slices = ClusterSlices<ElementType, Blocks, Rows, Sequences, Stride>;

 public:
  using Element = ElementType;
  /// One for each block that is sent to.
  static constexpr int fewest_warps = Blocks - 1;
  static constexpr bool copies_send = false, waits_longest = false;
  static_assert(Stride * sizeof(Element) % 16 == 0, "bulk copies move multiples of 16 bytes");

  ClusterExchange() = default;
  explicit __device__ ClusterExchange(unsigned char* memory, int sequences = Sequences)
      : Slices(memory, (Blocks - 1) * bytes_of_slice(sequences)), slice_bytes_(bytes_of_slice(sequences)) {}

  __device__ void store(int step, int row, int sequence, Element value) const {
    this->own_slice(step)[sequence * Stride + row] = value;
  }
  __device__ void commit(int step) const {
    ptx::fence_proxy_async();
    __syncthreads();
    // A copy a warp, for one warp would start them one after another; each block begins with another
    // receiver.
    const unsigned warp = threadIdx.x / warp_size;
    if (threadIdx.x % warp_size == 0 && warp < Blocks - 1) {
      ptx::copy_bulk_to_rank(this->own_slice(step), this->own_slice(step), slice_bytes_,
                             this->barriers_ + (step & 1), (this->rank_ + 1 + warp) % Blocks);
    }
  }

 private:
  static constexpr __device__ unsigned bytes_of_slice(int sequences) {
    return static_cast<unsigned>(sequences * Stride * sizeof(Element));
  }

  unsigned slice_bytes_ = 0;
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
