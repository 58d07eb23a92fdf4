#pragma once

#include "cuda/rollouts/persistent/state_exchange.cuh"

namespace orthornn::cuda {

/// Over a cluster, where a block has few numbers to say: a thread sends each of its numbers to the blocks as
/// soon as it has it, and no thread waits for the others of its block before that. `Senders` neighbouring
/// threads have the same numbers and share the blocks that they send to.
template <int Blocks, int Rows, int Sequences, int Senders>
class WordExchange : public ClusterBuffers<float, Blocks, Rows * Sequences> {
  using Buffers = ClusterBuffers<float, Blocks, Rows * Sequences>;
  static constexpr int slice = Rows * Sequences;
  static constexpr int receivers = Blocks / Senders;
  static_assert(Blocks % Senders == 0);

 public:
  static constexpr int rows = Rows;
  static constexpr bool copies_send = true, waits_longest = true;

  WordExchange() = default;
  explicit __device__ WordExchange(unsigned char* memory)
      : Buffers(memory, static_cast<unsigned>(Blocks * slice * sizeof(float)), 0) {
#pragma unroll
    for (int i = 0; i < receivers; ++i) {
      // Each block begins with another receiver.
      const unsigned rank = (this->rank_ + threadIdx.x % Senders + i * Senders) % Blocks;
      receivers_[i] = ptx::address_at_rank(ptx::shared_address(memory), rank);
    }
  }

  __device__ void store(int step, int row, int sequence, float value) const {
    const int word = ((step & 1) * Blocks + static_cast<int>(this->rank_)) * slice + sequence * Rows + row;
    const auto offset = static_cast<unsigned>(Buffers::barrier_bytes + word * sizeof(float));
    const auto barrier = static_cast<unsigned>((step & 1) * sizeof(std::uint64_t));
#pragma unroll
    for (int i = 0; i < receivers; ++i)
      ptx::store_async(receivers_[i] + offset, value, receivers_[i] + barrier);
  }
  __device__ void commit(int) const {}
  __device__ const float* columns(int step, int column) const {
    return this->buffer(step) + column / rows * slice + column % rows;
  }
  static constexpr __device__ int offset(int column, int sequence) {
    return column / rows * slice + sequence * Rows;
  }

 private:
  /// Where this memory lies in the blocks that this thread sends to.
  unsigned receivers_[receivers] = {};
};

}  // namespace orthornn::cuda
