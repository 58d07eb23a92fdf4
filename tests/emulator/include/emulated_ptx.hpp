#pragma once

#include <cstdint>
#include <source_location>

#include "emulator/thread.hpp"

/// The functions of cuda/core/ptx.cuh for the emulated device: the same names and meanings. Asynchronous
/// copies are performed as late as the program's waits allow, so that a wait which is missing shows (with
/// ORTHORNN_EMULATED_SEED, at random times).

#define ORTHORNN_EMULATED_HERE std::source_location where = std::source_location::current()

namespace orthornn::ptx {

/// Rank of the running block in its cluster (%cluster_ctarank).
unsigned cluster_rank();
/// Waits until all threads of the cluster that have not exited have arrived (barrier.cluster.arrive.release,
/// then barrier.cluster.wait.acquire).
void cluster_synchronize(ORTHORNN_EMULATED_HERE);

/// A barrier whose phases complete with `count` arrivals and all bytes that these expect (mbarrier.init).
void mbarrier_initialize(std::uint64_t* barrier, unsigned count, ORTHORNN_EMULATED_HERE);
/// Makes the initialisation visible to the cluster (fence.mbarrier_init.release.cluster).
inline void mbarrier_fence_initialization() {}
/// Arrives and expects that many more bytes in this phase (mbarrier.arrive.expect_tx).
void mbarrier_arrive_expect(std::uint64_t* barrier, unsigned bytes, ORTHORNN_EMULATED_HERE);
/// Waits until the phase of that parity has completed (mbarrier.try_wait.parity in a loop).
void mbarrier_wait(std::uint64_t* barrier, unsigned parity, ORTHORNN_EMULATED_HERE);

/// Begins a copy from our shared memory into that of a block of the cluster, where it completes `bytes` of
/// the barrier (cp.async.bulk.shared::cluster.shared::cta). Destination and barrier are given as addresses in
/// our own shared memory.
void copy_bulk_to_rank(void* destination, const void* source, unsigned bytes, std::uint64_t* barrier,
                       unsigned rank, ORTHORNN_EMULATED_HERE);
/// Makes what was written to shared memory visible to bulk copies (fence.proxy.async.shared::cta).
inline void fence_proxy_async() {}

/// Begins a copy of 4, 8 or 16 bytes from global into shared memory (cp.async).
void begin_copy(void* shared, const void* global, unsigned bytes, std::source_location where);
template <int Bytes>
void cp_async(void* shared, const void* global, ORTHORNN_EMULATED_HERE) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  begin_copy(shared, global, Bytes, where);
}
/// The copies begun since the last commit are one group (cp.async.commit_group).
void cp_async_commit();
/// Waits for all but the last `pending` groups (cp.async.wait_group).
void cp_async_wait_for(unsigned pending);
template <int N>
void cp_async_wait() {
  cp_async_wait_for(N);
}

/// d += a b with a of 16 x 16 and b of 16 x 8 (mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32). Sums are
/// exact until they are rounded into d, which the device does not promise.
void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], ORTHORNN_EMULATED_HERE);
/// To the nearest, ties away from zero (cvt.rna.tf32.f32).
unsigned round_to_tf32(float x);

}  // namespace orthornn::ptx

#undef ORTHORNN_EMULATED_HERE
