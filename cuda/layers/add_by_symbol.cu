#include <algorithm>
#include <utility>

#include "cuda/core/for_each.cuh"
#include "cuda/layers/add_by_symbol.hpp"

// Of a vocabulary of tens of thousands, a batch has a thousand symbols or so. So the positions are sorted by
// symbol, and only rows of symbols that occur are touched:
//
//   sort_tiles     a block sorts up to 2048 keys (symbol, position) in shared memory, as a bitonic network
//   merge_ranges   sorted ranges become ranges of twice the length; no launch for up to 2048 positions
//   add_chunks     a block adds the rows of g at 16 neighbours in the order of the keys, a thread for each
//                  column. What continues a symbol of the chunk before goes to `heads`, a row for each chunk.
//   add_heads      adds the heads of each symbol
//
// So a symbol at half of all positions is summed by as many blocks as its positions fill. All keys differ, so
// their order is that of the symbols and positions alone, and with it that of every sum.

namespace orthornn::cuda {
namespace {

using Key = unsigned long long;

constexpr unsigned tile = 2048;
// A thread has all its terms of a chunk on their way before it adds the first one.
constexpr int chunk = 16;
constexpr unsigned most_columns = 128;
// Of add_heads: columns and parts of a sum.
constexpr unsigned head_columns = 32;
constexpr unsigned head_parts = 8;

__device__ __forceinline__ unsigned symbol_of(Key key) { return static_cast<unsigned>(key >> 32); }
__device__ __forceinline__ Index position_of(Key key) { return static_cast<unsigned>(key); }

/// A block sorts two keys a thread; `tile`, where there are several blocks.
__global__ void sort_tiles(const std::int32_t* symbols, Index count, Key* sorted) {
  __shared__ Key keys[tile];
  const unsigned sorters = blockDim.x, size = 2 * sorters;
  const Index first = static_cast<Index>(blockIdx.x) * size;
  for (unsigned i = threadIdx.x; i < size; i += sorters) {
    const Index position = first + i;
    // A negative symbol is a large one here. What lies beyond the end stays there: its key is the largest.
    keys[i] = position < count ? static_cast<Key>(static_cast<unsigned>(symbols[position])) << 32 |
                                     static_cast<Key>(position)
                               : ~Key{0};
  }
  for (unsigned width = 2; width <= size; width *= 2) {
    for (unsigned distance = width / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const unsigned low = 2 * threadIdx.x - (threadIdx.x & (distance - 1)), high = low + distance;
      const Key a = keys[low], b = keys[high];
      if ((a > b) == ((low & width) == 0)) {
        keys[low] = b;
        keys[high] = a;
      }
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < size; i += sorters) {
    if (first + i < count) sorted[first + i] = keys[i];
  }
}

/// The first of from[begin ..  end - 1] that is not below `key`, or `end`.
__device__ __forceinline__ Index lower_bound(const Key* from, Index begin, Index end, Key key) {
  while (begin < end) {
    const Index middle = begin + (end - begin) / 2;
    if (from[middle] < key) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

/// A key's new place is its place in its range plus the number of smaller keys in the other one.
void merge_ranges(const Context& gpu, const Key* from, Key* to, Index count, Index width) {
  for_each(gpu, count, [=] __device__(Index i) {
    const Index range = i / width * width, other = (i / width ^ 1) * width;
    const Index begin = other < count ? other : count;
    const Index end = other + width < count ? other + width : count;
    const Index smaller = lower_bound(from, begin, end, from[i]) - begin;
    to[(range < other ? range : other) + (i - range) + smaller] = from[i];
  });
}

template <class T>
struct Arguments {
  const T* g;       // [count, columns]
  const Key* keys;  // [count], sorted
  Index count;
  Index columns;
  Index symbol_count;
  Index chunks;
  T* sums;   // [symbol_count, columns]
  T* heads;  // [chunks, columns]
};

template <class T>
__global__ void add_chunks(Arguments<T> a) {
  const Index column = static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (column >= a.columns) return;
  const Index first = static_cast<Index>(blockIdx.x) * chunk;
  const Key* keys = a.keys + first;
  const Index count = a.count - first < chunk ? a.count - first : chunk;
  const auto known = [&](int i) { return i < count && symbol_of(keys[i]) < a.symbol_count; };
  T terms[chunk];
#pragma unroll
  for (int i = 0; i < chunk; ++i) terms[i] = known(i) ? a.g[position_of(keys[i]) * a.columns + column] : T{0};
  bool is_head = first > 0 && symbol_of(keys[-1]) == symbol_of(keys[0]);
  T sum = 0;
#pragma unroll
  for (int i = 0; i < chunk; ++i) {
    if (!known(i)) return;  // neither are those that follow
    sum += terms[i];
    const unsigned symbol = symbol_of(keys[i]);
    if (i + 1 < count && symbol_of(keys[i + 1]) == symbol) continue;
    if (is_head) {
      a.heads[blockIdx.x * a.columns + column] = sum;
    } else {
      a.sums[symbol * a.columns + column] += sum;
    }
    is_head = false;
    sum = 0;
  }
}

/// Block (i, j) is of the symbol whose first head is that of chunk i + 1, where there is one.
template <class T>
__global__ void add_heads(Arguments<T> a) {
  __shared__ T parts[head_parts][head_columns];
  const Index first = static_cast<Index>(blockIdx.x) + 1;
  const auto symbol_at = [&](Index place) { return symbol_of(a.keys[place]); };
  const unsigned symbol = symbol_at(first * chunk);
  if (symbol >= a.symbol_count || symbol_at(first * chunk - 1) != symbol) return;
  if (first > 1 && symbol_at((first - 1) * chunk - 1) == symbol) return;
  // The first chunk that begins with a larger symbol.
  Index last = first + 1, end = a.chunks;
  while (last < end) {
    const Index middle = last + (end - last) / 2;
    if (symbol_at(middle * chunk) > symbol) {
      end = middle;
    } else {
      last = middle + 1;
    }
  }
  const Index column = static_cast<Index>(blockIdx.y) * head_columns + threadIdx.x;
  T part = 0;
  if (column < a.columns) {
#pragma unroll 4
    for (Index i = first + threadIdx.y; i < last; i += head_parts) part += a.heads[i * a.columns + column];
  }
  parts[threadIdx.y][threadIdx.x] = part;
  __syncthreads();
  if (threadIdx.y > 0 || column >= a.columns) return;
  T sum = 0;
  for (unsigned y = 0; y < head_parts; ++y) sum += parts[y][threadIdx.x];
  a.sums[symbol * a.columns + column] += sum;
}

}  // namespace

template <class T>
void add_by_symbol(TensorView<const T> g, TensorView<const std::int32_t> symbols, TensorView<T> sums,
                   Saved& scratch) {
  const Context& gpu = context(g.device());
  const Index count = symbols.size(), columns = sums.shape()[1], chunks = blocks_for(count, chunk);
  Key* keys = scratch.push<Key>({count}).data();
  unsigned size = 2 * warp_size;
  while (size < tile && size < count) size *= 2;
  launch(gpu, sort_tiles, {.grid = blocks_for(count, size), .block = size / 2}, symbols.data(), count, keys);
  if (count > tile) {
    Key* other = scratch.push<Key>({count}).data();
    for (Index width = tile; width < count; width *= 2) {
      merge_ranges(gpu, keys, other, count, width);
      std::swap(keys, other);
    }
  }
  const Arguments<T> a{.g = g.data(),
                       .keys = keys,
                       .count = count,
                       .columns = columns,
                       .symbol_count = sums.shape()[0],
                       .chunks = chunks,
                       .sums = sums.data(),
                       .heads = scratch.push<T>({chunks, columns}).data()};
  const unsigned x = std::min(most_columns, blocks_for(columns, warp_size) * warp_size);
  launch(gpu, add_chunks<T>,
         {.grid = dim3(static_cast<unsigned>(chunks), blocks_for(columns, x)), .block = x}, a);
  if (chunks == 1) return;
  launch(gpu, add_heads<T>,
         {.grid = dim3(static_cast<unsigned>(chunks - 1), blocks_for(columns, head_columns)),
          .block = dim3(head_columns, head_parts)},
         a);
}

#define ORTHORNN_INSTANTIATE(T) \
  template void add_by_symbol<T>(TensorView<const T>, TensorView<const std::int32_t>, TensorView<T>, Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
