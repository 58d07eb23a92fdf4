#pragma once
// Products of matrices by a warpgroup, four warps that begin at a multiple of four. They run beside the
// threads, which wait for their results. They need the instructions of compute capability 9.0a; a kernel asks
// `has_wgmma` for what it was compiled for.
//
// A warp has 16 rows of the left operand and of the results in its registers, as for mma.m16n8k16. The right
// operand is a tile of bfloat16 in shared memory, with the permutation of its 16-byte vectors that the
// instruction expects: rows of 128 bytes in which vector v of row r lies at v ^ (r % 8), or of 64 bytes where
// it lies at v ^ (r / 2 % 4). Tiles begin at multiples of 1024 bytes.

#include <cstdint>

#include "cuda/core/ptx.cuh"

namespace orthornn::wgmma {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool has_wgmma = true;
#define ORTHORNN_WGMMA_ASM(...) asm volatile(__VA_ARGS__)
#else
inline constexpr bool has_wgmma = false;
#define ORTHORNN_WGMMA_ASM(...) __trap()
#endif

/// What the instruction knows of a tile. `row_bytes` is 128 or 64. A product that sums over rows and has more
/// columns than a row finds the next ones `panel_bytes` later.
__device__ __forceinline__ std::uint64_t operand(const void* shared, int row_bytes, int panel_bytes) {
  const std::uint64_t address = ptx::shared_address(shared),
                      eight_rows = static_cast<unsigned>(8 * row_bytes),
                      panel = static_cast<unsigned>(panel_bytes);
  const std::uint64_t permutation = row_bytes == 128 ? 1 : 2;
  return (address & 0x3FFFF) >> 4 | panel >> 4 << 16 | eight_rows >> 4 << 32 | permutation << 62;
}

/// Products that start after this see what this warp has written to registers before.
__device__ __forceinline__ void fence() { ORTHORNN_WGMMA_ASM("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Makes the products since the last group a group.
__device__ __forceinline__ void commit() {
  ORTHORNN_WGMMA_ASM("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits for all groups but the last N.
template <int N>
__device__ __forceinline__ void wait() {
  ORTHORNN_WGMMA_ASM("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/// The registers of each thread from here on, a multiple of 8: by a whole warpgroup, which had more, or
/// fewer.
template <int count>
__device__ __forceinline__ void release_registers() {
  ORTHORNN_WGMMA_ASM("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ __forceinline__ void take_registers() {
  ORTHORNN_WGMMA_ASM("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

#define ORTHORNN_SUMS(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define ORTHORNN_SUMS_4(j) ORTHORNN_SUMS(j), ORTHORNN_SUMS(j + 1), ORTHORNN_SUMS(j + 2), ORTHORNN_SUMS(j + 3)
#define ORTHORNN_SUMS_8(j) ORTHORNN_SUMS_4(j), ORTHORNN_SUMS_4(j + 4)
#define ORTHORNN_OPERANDS \
  "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(over_rows ? 1 : 0), "n"(add ? 1 : 0)

/// Starts d [64, N] += a b, or d = a b, where a [64, 16] is in registers: N / 8 tiles of four numbers a
/// thread. b [16, N] has sixteen rows of its tile (`over_rows`), or the transposes of N rows of sixteen
/// numbers. N is 16, 32, 64, 96 or 128.
template <int N, bool over_rows, bool add>
__device__ __forceinline__ void multiply(float (*d)[4], const unsigned (&a)[4], std::uint64_t b) {
  static_assert(N == 16 || N == 32 || N == 64 || N == 96 || N == 128);
  if constexpr (N == 16) {
    ORTHORNN_WGMMA_ASM(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %14, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, p, 1, 1, %13;\n\t}"
        : ORTHORNN_SUMS(0), ORTHORNN_SUMS(1)
        : ORTHORNN_OPERANDS);
  } else if constexpr (N == 32) {
    ORTHORNN_WGMMA_ASM(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %22, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, p, 1, 1, %21;\n\t}"
        : ORTHORNN_SUMS_4(0)
        : ORTHORNN_OPERANDS);
  } else if constexpr (N == 64) {
    ORTHORNN_WGMMA_ASM(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %38, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
        "%21, "
        "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, %37;\n\t}"
        : ORTHORNN_SUMS_8(0)
        : ORTHORNN_OPERANDS);
  } else if constexpr (N == 96) {
    ORTHORNN_WGMMA_ASM(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %54, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
        "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, {%48, %49, %50, %51}, %52, p, 1, 1, %53;\n\t}"
        : ORTHORNN_SUMS_8(0), ORTHORNN_SUMS_4(8)
        : ORTHORNN_OPERANDS);
  } else {
    ORTHORNN_WGMMA_ASM(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %70, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
        "%21, "
        "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
        "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
        "%62, %63}, {%64, %65, %66, %67}, %68, p, 1, 1, %69;\n\t}"
        : ORTHORNN_SUMS_8(0), ORTHORNN_SUMS_8(8)
        : ORTHORNN_OPERANDS);
  }
}

#undef ORTHORNN_SUMS
#undef ORTHORNN_SUMS_4
#undef ORTHORNN_SUMS_8
#undef ORTHORNN_OPERANDS
#undef ORTHORNN_WGMMA_ASM

}  // namespace orthornn::wgmma
