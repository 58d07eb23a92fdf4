#pragma once
// Instructions without a name in CUDA C++: clusters, barriers that count bytes, bulk copies, tensor cores.
// The names follow the PTX ISA, which defines their exact meaning. Everything about clusters needs compute
// capability 9.0.

#ifdef ORTHORNN_EMULATED_CUDA
#include <emulated_ptx.hpp>
#else

#include <cstdint>

// Kernels that use clusters are compiled for older GPUs too, but never launched there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define ORTHORNN_HOPPER_ASM(...) __trap()
#else
#define ORTHORNN_HOPPER_ASM(...) asm volatile(__VA_ARGS__)
#endif

namespace orthornn::ptx {

/// Address in the shared window, for PTX.
__device__ __forceinline__ unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank = 0;
  ORTHORNN_HOPPER_ASM("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// A barrier of all threads of the cluster. Writes before it are visible to all threads after it.
__device__ __forceinline__ void cluster_synchronize() {
  ORTHORNN_HOPPER_ASM("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
                          : "memory");
}

/// The address in block `rank` of the cluster that corresponds to `address` in this block.
__device__ __forceinline__ unsigned address_at_rank(unsigned address, unsigned rank) {
  unsigned mapped = 0;
  ORTHORNN_HOPPER_ASM("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

/// A barrier in shared memory. A phase ends after `count` arrivals and all announced bytes.
__device__ __forceinline__ void mbarrier_initialize(std::uint64_t* barrier, unsigned count) {
  ORTHORNN_HOPPER_ASM("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
                      : "memory");
}

/// Makes initialized barriers visible to the other blocks of the cluster. A cluster barrier must follow.
__device__ __forceinline__ void mbarrier_fence_initialization() {
  ORTHORNN_HOPPER_ASM("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Arrives, and announces bytes of copies and stores for this phase.
__device__ __forceinline__ void mbarrier_arrive_expect(std::uint64_t* barrier, unsigned bytes) {
  ORTHORNN_HOPPER_ASM("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                      "r"(bytes)
                      : "memory");
}

/// Arrives. What this thread has written is visible to those that wait for the phase.
__device__ __forceinline__ void mbarrier_arrive(std::uint64_t* barrier) {
  ORTHORNN_HOPPER_ASM("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/// Waits for the end of the phase of this parity: 0, 1, 0, ..
__device__ __forceinline__ void mbarrier_wait(std::uint64_t* barrier, unsigned parity) {
  unsigned done = 0;
  while (!done) {
    ORTHORNN_HOPPER_ASM(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

/// Starts copying `bytes` (a multiple of 16, both sides aligned so) from this block's shared memory to block
/// `rank`; `destination` and `barrier` are given as addresses in this block and are used at the same offset
/// in the other. The bytes count at the barrier of the other block.
__device__ __forceinline__ void copy_bulk_to_rank(void* destination, const void* source, unsigned bytes,
                                                  std::uint64_t* barrier, unsigned rank) {
  ORTHORNN_HOPPER_ASM(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          address_at_rank(shared_address(destination), rank)),
      "r"(shared_address(source)), "r"(bytes), "r"(address_at_rank(shared_address(barrier), rank))
      : "memory");
}

/// Starts storing a number in the shared memory of a block of the cluster. Its bytes count at a barrier of
/// that block. Both addresses are those of `address_at_rank`.
__device__ __forceinline__ void store_async(unsigned destination, float x, unsigned barrier) {
  ORTHORNN_HOPPER_ASM(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(destination),
      "f"(x), "r"(barrier)
      : "memory");
}

/// The same for four numbers, which go to a multiple of 16 bytes.
__device__ __forceinline__ void store_async(unsigned destination, float4 x, unsigned barrier) {
  ORTHORNN_HOPPER_ASM(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
          destination),
      "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(barrier)
      : "memory");
}

/// Starts copying `bytes` (a multiple of 16, both sides aligned so) from shared to global memory, as a group
/// of this thread.
__device__ __forceinline__ void copy_bulk_to_global(void* global, const void* shared, unsigned bytes) {
  ORTHORNN_HOPPER_ASM(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n\tcp.async.bulk.commit_group;" ::"l"(
          global),
      "r"(shared_address(shared)), "r"(bytes)
      : "memory");
}

/// Starts copying `bytes` (a multiple of 16, both sides aligned so) from global to shared memory. The bytes
/// count at the barrier.
__device__ __forceinline__ void copy_bulk_to_shared(void* shared, const void* global, unsigned bytes,
                                                    std::uint64_t* barrier) {
  ORTHORNN_HOPPER_ASM(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

/// Starts copying the box of a tensor map (cuda/core/tensor_map.cuh) that begins at row x of column y from
/// global to shared memory. Its bytes count at the barrier, also those beyond the matrix, which become 0.
__device__ __forceinline__ void copy_box_to_shared(void* shared, const void* map, int x, int y,
                                                   std::uint64_t* barrier) {
  ORTHORNN_HOPPER_ASM(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(shared)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
}

/// Waits until all groups of this thread have read their shared memory.
__device__ __forceinline__ void copy_bulk_wait_read() {
  ORTHORNN_HOPPER_ASM("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/// Makes what this thread wrote to shared memory visible to bulk copies and products of warpgroups that a
/// thread starts after a barrier.
__device__ __forceinline__ void fence_proxy_async() {
  ORTHORNN_HOPPER_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Starts copying 4, 8 or 16 bytes, aligned so, from global to shared memory.
template <int Bytes>
__device__ __forceinline__ void cp_async(void* shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(shared)), "l"(global),
               "n"(Bytes)
               : "memory");
}
/// Starts copying 16 bytes, aligned so, past the first cache, or sets them to zero.
__device__ __forceinline__ void cp_async_or_zero(void* shared, const void* global, bool present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(present ? 16 : 0)
               : "memory");
}

/// Commits the copies that this thread has started since the last group as one group.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits for all groups of this thread except the last N.
template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// Arrives at a barrier when the copies that this thread has started so far are done.
__device__ __forceinline__ void cp_async_mbarrier_arrive(std::uint64_t* barrier) {
  ORTHORNN_HOPPER_ASM("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
                      : "memory");
}

/// Four 8 x 8 matrices of 16 bits from shared memory, by the whole warp. Lane 8 i + r gives the address of
/// row r of matrix i, and lane 4 g + t gets numbers 2 t and 2 t + 1 of row g of each.
__device__ __forceinline__ void load_matrices(unsigned (&x)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared_address(row)));
}

/// The same of the transposed matrices.
__device__ __forceinline__ void load_matrices_transposed(unsigned (&x)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared_address(row)));
}

/// The inverse of load_matrices. Needs compute capability 9.0.
__device__ __forceinline__ void store_matrices(const unsigned (&x)[4], void* row) {
  ORTHORNN_HOPPER_ASM(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
      "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
      : "memory");
}

/// The inverse of load_matrices_transposed. Needs compute capability 9.0.
__device__ __forceinline__ void store_matrices_transposed(const unsigned (&x)[4], void* row) {
  ORTHORNN_HOPPER_ASM(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
      "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
      : "memory");
}

/// d += a b for 16 x 16 by 16 x 8, by the whole warp: bfloat16 operands, float sums.
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4],
                                                  const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// d += a b for 16 x 8 by 8 x 8, by the whole warp: operands are tf32, sums float.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4],
                                                 const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// 2^x, up to a relative error of 2^-22; 0 where that is below the normal numbers.
__device__ __forceinline__ float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The nearest tf32.
__device__ __forceinline__ unsigned round_to_tf32(float x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

/// Starts bringing a line of global memory to the L2 cache.
__device__ __forceinline__ void prefetch_to_l2(const void* line) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}

}  // namespace orthornn::ptx

#undef ORTHORNN_HOPPER_ASM
#endif
