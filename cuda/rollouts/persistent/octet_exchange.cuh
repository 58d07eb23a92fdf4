#pragma once
// Exchanges over a cluster in which each warp sends what it makes by itself, without a barrier of its block.
// A warp then waits until the rows of all blocks are there.

#include "cuda/rollouts/persistent/state_exchange.cuh"

namespace orthornn::cuda {

/// Octets of rows of the state, [Columns][Numbers] each, in the order of the rows. `Padding` numbers lie
/// before each odd octet, or, where octets are `Apart`, before each octet but the first.
template <int Columns, int Numbers, int Padding, bool Apart>
struct OctetLayout {
  static constexpr int rows = 8, columns = Columns, column_numbers = Numbers;
  /// Where an octet begins.
  static constexpr __device__ int place(int octet) {
    return octet * Columns * Numbers + (Apart ? octet : (octet + 1) / 2) * Padding;
  }
};

/// A block has `Octets` octets, of which a warp makes every `Warps`-th. The first columns are sent.
template <class Element, int Blocks, int Octets, int Warps, class Layout>
class OctetExchange : public ClusterBuffers<Element, Blocks, Layout::place(Octets)> {
  using Buffers = ClusterBuffers<Element, Blocks, Layout::place(Octets)>;
  /// Octets of a warp.
  static constexpr int sends = Octets / Warps;
  static constexpr unsigned column_bytes = Layout::column_numbers * sizeof(Element),
                            vector_bytes = sizeof(float4),
                            most_vectors = Layout::columns * column_bytes / vector_bytes,
                            most_stores = (Blocks - 1) * sends * most_vectors;
  static_assert(Octets % Warps == 0 && column_bytes % vector_bytes == 0 &&
                Layout::place(1) * sizeof(Element) % vector_bytes == 0);
  // Octets lie as far apart across blocks, and across the octets of a warp, as within them.
  static_assert(Layout::place(Octets + 1) == Layout::place(Octets) + Layout::place(1) &&
                Layout::place(Warps + 1) == Layout::place(Warps) + Layout::place(1));

 protected:
  OctetExchange() = default;
  __device__ OctetExchange(unsigned char* memory, int columns)
      : Buffers(memory, (Blocks - 1) * Octets * columns * column_bytes, Warps * warp_size),
        vectors_(columns * column_bytes / vector_bytes),
        inverse_((0xFFFF + vectors_) / vectors_) {}

  __device__ Element* own_octet(int step, int number) const {
    return this->own(step) + Layout::place(number);
  }

  /// By a warp that has written its octets, of which `number` is the first.
  __device__ void send(int step, int number) const {
    const unsigned lane = threadIdx.x % warp_size;
    std::uint64_t* const barrier = this->barrier_of(step);
    __syncwarp();
#ifdef ORTHORNN_EMULATED_CUDA
    // The emulator has no stores of vectors.
    for (int i = 0; i < sends && lane < Blocks - 1; ++i) {
      Element* const octet = own_octet(step, number + i * Warps);
      ptx::copy_bulk_to_rank(octet, octet, vectors_ * vector_bytes, barrier, this->receiver(lane));
    }
#else
    const unsigned at = ptx::shared_address(barrier), stores = (Blocks - 1) * sends * vectors_;
    const Element* const first_octet = own_octet(step, number);
    const unsigned to = ptx::shared_address(first_octet);
    // Where more rounds were unrolled, registers were spilled.
    constexpr unsigned rounds = (most_stores + warp_size - 1) / warp_size,
                       unrolled = rounds <= 4 ? rounds : 1;
    // The quotient is exact where i and vectors_ are at most 2^8, also in lanes without a store.
    static_assert(rounds * warp_size <= 1 << 8 && most_vectors <= 1 << 8);
#pragma unroll(unrolled)
    for (unsigned round = 0; round < rounds; ++round) {
      const unsigned i = round * warp_size + lane, octet = i * inverse_ >> 16;  // i / vectors_
      if (i >= stores) break;
      const unsigned vector = i - octet * vectors_, rank = this->receiver(octet / sends);
      const unsigned offset = octet % sends * Layout::place(Warps) * sizeof(Element) / vector_bytes + vector;
      ptx::store_async(ptx::address_at_rank(to + offset * vector_bytes, rank),
                       reinterpret_cast<const float4*>(first_octet)[offset], ptx::address_at_rank(at, rank));
    }
#endif
    // Every lane arrives. One for its warp would take as long, and racecheck would not follow it.
    ptx::mbarrier_arrive_expect(barrier, 0);
  }

 private:
  /// Vectors of 16 bytes that are sent of an octet, and 2^16 divided by their number, rounded up.
  unsigned vectors_ = 0, inverse_ = 0;
};

/// An octet has room for an odd number of sequences. So lanes whose reads are served at once read different
/// banks.
template <int Sequences>
using SequenceLayout = OctetLayout<Sequences, 8, Sequences % 2 == 0 ? 8 : 0, true>;

/// Of floats, where a warp makes eight rows.
template <int Blocks, int Rows, int Sequences>
class SequenceExchange : public OctetExchange<float, Blocks, Rows / 8, Rows / 8, SequenceLayout<Sequences>> {
  using Layout = SequenceLayout<Sequences>;
  static_assert(Rows % Layout::rows == 0);

 public:
  static constexpr int rows = Rows;
  static constexpr bool copies_send = false, waits_longest = false;

  SequenceExchange() = default;
  explicit __device__ SequenceExchange(unsigned char* memory)
      : OctetExchange<float, Blocks, Rows / 8, Rows / 8, Layout>(memory, Sequences) {}

  __device__ void store(int step, int row, int sequence, float value) const {
    this->own_octet(step, row / Layout::rows)[offset(0, sequence) + row % Layout::rows] = value;
  }
  __device__ void commit(int step) const { this->send(step, static_cast<int>(threadIdx.x / warp_size)); }
  __device__ const float* columns(int step, int column) const {
    return this->buffer(step) + Layout::place(column / Layout::rows) + column % Layout::rows;
  }
  static constexpr __device__ int offset(int, int sequence) { return sequence * Layout::column_numbers; }
};

}  // namespace orthornn::cuda
