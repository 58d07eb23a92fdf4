// L reflections of a column are L dot products. Each depends on the one before. While the GPU has room for
// all columns, only the latency of one dot product counts. So a column lies in the registers of a group of
// lanes within one warp, for N up to 1024: a dot product is then a few multiply-adds in each lane and a
// butterfly of shuffles, with no barrier. Twice as many lanes need one more exchange (a shuffle and an
// addition, about 30 cycles). Projecting and updating 2 x 15 elements of a float column takes the same time.
// Hence 8 lanes up to N = 256, and 24 to 32 elements a lane for larger N. Only columns that exceed the
// registers of a warp are spread over a block, whose barrier costs about 60 cycles.
//
// Reflectors come from the second-level cache. Its latency is about 270 cycles, more than a reflection takes.
// So a block keeps a few reflectors in shared memory while it loads the next few into registers. Two warps
// share them, which halves the traffic of the cache.

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/core/pack.cuh"
#include "cuda/products/reflections.hpp"

namespace orthornn::cuda {
namespace {

/// How columns of up to `capacity` rows are laid out: `Lanes` threads a column, `Elements` in each.
template <class T, int Lanes, int Elements>
struct TileLayout {
  static constexpr int lanes = Lanes;
  static constexpr int elements = Elements;
  static constexpr int capacity = lanes * elements;
  static constexpr int threads = lanes > 64 ? lanes : 64;
  static constexpr int columns = threads / lanes;
  static constexpr int warps_of_column = (lanes + 31) / 32;
  /// Each lane reads words of 16 bytes from shared memory.
  static constexpr int width = 16 / sizeof(T);
  static constexpr int words = elements / width;
  /// Reflectors that are loaded at a time: 128 bytes a thread in registers.
  static constexpr int rows_that_fit = threads * 128 / static_cast<int>(capacity * sizeof(T));
  static constexpr int rows = rows_that_fit > 1 ? rows_that_fit : 1;
  static constexpr int staged_of_row = capacity / threads;
  static constexpr std::size_t shared_bytes = 2 * rows * capacity * sizeof(T);
  static constexpr std::size_t all_shared_bytes = shared_bytes + 2 * warps_of_column * sizeof(T);
  static_assert(elements % width == 0 && capacity % threads == 0);
};

/// u and c are those of the first reflection, from which the next ones are `u_step` and `c_step` away.
template <class T>
struct ReflectArguments {
  const T* u;
  Index u_step;
  Index n;
  Index reflections;
  const T* x;
  Index x_stride;
  Index columns;
  T* out;
  Index out_stride;
  T* c;
  Index c_step;
  Index c_stride;
};

/// The next few reflectors, loaded into registers and padded with zeros. After the last reflector, the last
/// one is loaded again.
template <class T, class Layout>
struct StagedReflectors {
  T element[Layout::rows][Layout::staged_of_row];

  __device__ void load(const ReflectArguments<T>& a, Index first_step) {
#pragma unroll
    for (int row = 0; row < Layout::rows; ++row) {
      const Index step = first_step + row;
      const T* u = a.u + (step < a.reflections ? step : a.reflections - 1) * a.u_step;
#pragma unroll
      for (int i = 0; i < Layout::staged_of_row; ++i) {
        const int k = static_cast<int>(threadIdx.x) + i * Layout::threads;
        element[row][i] = k < a.n ? u[k] : T{0};
      }
    }
  }
  __device__ void store(T* rows) const {
#pragma unroll
    for (int row = 0; row < Layout::rows; ++row) {
#pragma unroll
      for (int i = 0; i < Layout::staged_of_row; ++i) {
        rows[row * Layout::capacity + threadIdx.x + i * Layout::threads] = element[row][i];
      }
    }
  }
};

/// A lane's share of a reflector or of a column: words lane, lane + lanes, ..
template <class T, class Layout>
struct Share {
  Word<T> word[Layout::words];

  __device__ void load(const T* row, int lane) {
#pragma unroll
    for (int i = 0; i < Layout::words; ++i) {
      word[i] = reinterpret_cast<const Word<T>*>(row)[lane + i * Layout::lanes];
    }
  }
  /// body(element, its number in the column)
  template <class Body>
  __device__ void for_each(int lane, const Body& body) {
#pragma unroll
    for (int i = 0; i < Layout::words; ++i) {
#pragma unroll
      for (int j = 0; j < Layout::width; ++j) {
        body(word[i].of[j], (lane + i * Layout::lanes) * Layout::width + j);
      }
    }
  }
};

/// The lane's part of u . h: one sum for each position in a word, computed in parallel.
template <class T, class Layout>
__device__ T partial_product(const Share<T, Layout>& u, const Share<T, Layout>& h) {
  constexpr int sums = 4;
  T sum[sums] = {};
#pragma unroll
  for (int i = 0; i < Layout::elements; ++i) {
    sum[i % sums] +=
        u.word[i / Layout::width].of[i % Layout::width] * h.word[i / Layout::width].of[i % Layout::width];
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/// Sum over a column's lanes, in each of them. `partial` holds a number for each warp. It may be reused two
/// calls later.
template <class T, class Layout>
__device__ T column_sum(T x, T* partial) {
  constexpr int in_warp = Layout::lanes < 32 ? Layout::lanes : 32;
  x = sum_over_lanes(x, in_warp);
  if constexpr (Layout::warps_of_column > 1) {
    if (threadIdx.x % warp_size == 0) partial[threadIdx.x / warp_size] = x;
    __syncthreads();
    x = 0;
#pragma unroll
    for (int i = 0; i < Layout::warps_of_column; ++i) x += partial[i];
  }
  return x;
}

template <class T, class Layout>
__global__ void __launch_bounds__(Layout::threads) reflect_kernel(ReflectArguments<T> a) {
  __shared__ T partial[2][Layout::warps_of_column];
  T* const shared = reinterpret_cast<T*>(dynamic_shared_memory());
  const int lane = static_cast<int>(threadIdx.x) % Layout::lanes;
  const Index column = static_cast<Index>(blockIdx.x) * Layout::columns + threadIdx.x / Layout::lanes;
  const bool exists = column < a.columns;

  // 1. Load the column, padded with zeros, and the first reflectors.
  StagedReflectors<T, Layout> staged;
  staged.load(a, 0);
  Share<T, Layout> h;
  h.for_each(lane,
             [&](T& element, Index k) { element = exists && k < a.n ? a.x[k + column * a.x_stride] : T{0}; });
  staged.store(shared);
  __syncthreads();

  // 2. Apply all reflections, in batches of reflectors, while the next batch is loaded.
  Share<T, Layout> u, next;
  for (Index first = 0; first < a.reflections; first += Layout::rows) {
    const T* rows = shared + (first / Layout::rows % 2) * Layout::rows * Layout::capacity;
    const Index left = a.reflections - first;
    const int count = left < Layout::rows ? static_cast<int>(left) : Layout::rows;
    staged.load(a, first + Layout::rows);
    u.load(rows, lane);
    // Unrolled by two, so that u and next swap without a move.
#pragma unroll 2
    for (int row = 0; row < count; ++row) {
      const T projection = partial_product(u, h);
      if constexpr (Layout::rows > 1) {
        next.load(rows + (row + 1 < Layout::rows ? row + 1 : row) * Layout::capacity, lane);
      }
      const Index step = first + row;
      const T factor = 2 * column_sum<T, Layout>(projection, partial[step % 2]);
#pragma unroll
      for (int i = 0; i < Layout::words; ++i) {
#pragma unroll
        for (int j = 0; j < Layout::width; ++j) {
          h.word[i].of[j] -= factor * u.word[i].of[j];
        }
      }
      if (exists && lane == 0) a.c[step * a.c_step + column * a.c_stride] = factor;
      if constexpr (Layout::rows > 1) u = next;
    }
    staged.store(shared + ((first / Layout::rows + 1) % 2) * Layout::rows * Layout::capacity);
    __syncthreads();
  }

  // 3. out += h.
  h.for_each(lane, [&](T element, Index k) {
    if (exists && k < a.n) a.out[k + column * a.out_stride] += element;
  });
}

/// Calls body(layout) for the first layout that supports columns of `rows` on this GPU; returns false if
/// there is none.
template <class T, class Body>
bool with_layout(const Context& gpu, Index rows, const Body& body) {
  const auto takes = [&](auto layout) {
    using Layout = decltype(layout);
    if (rows > Layout::capacity || Layout::all_shared_bytes > gpu.shared_memory_per_block()) return false;
    body(layout);
    return true;
  };
  return takes(TileLayout<T, 8, 8>()) || takes(TileLayout<T, 8, 16>()) || takes(TileLayout<T, 8, 24>()) ||
         takes(TileLayout<T, 8, 32>()) || takes(TileLayout<T, 16, 32>()) || takes(TileLayout<T, 32, 32>()) ||
         takes(TileLayout<T, 128, 32>()) || takes(TileLayout<T, 512, 16>());
}

}  // namespace

template <class T>
bool reflects_in_registers(Device device, Index rows) {
  return with_layout<T>(context(device), rows, [](auto) {});
}

template <class T>
void reflect_tiles(MatrixView<const T> u, ReflectionOrder order, MatrixView<const T> x, MatrixView<T> out,
                   MatrixView<T> c) {
  if (x.cols == 0) return;
  const Context& gpu = context(out.device);
  const bool ascending = order == ReflectionOrder::first_to_last;
  const Index first = ascending ? 0 : u.cols - 1;
  const ReflectArguments<T> arguments{.u = u.column(first),
                                      .u_step = ascending ? u.stride : -u.stride,
                                      .n = u.rows,
                                      .reflections = u.cols,
                                      .x = x.data,
                                      .x_stride = x.stride,
                                      .columns = x.cols,
                                      .out = out.data,
                                      .out_stride = out.stride,
                                      .c = c.data + first,
                                      .c_step = ascending ? 1 : -1,
                                      .c_stride = c.stride};
  const bool launched = with_layout<T>(gpu, u.rows, [&](auto layout) {
    using Layout = decltype(layout);
    launch(gpu, reflect_kernel<T, Layout>,
           {.grid = blocks_for(arguments.columns, Layout::columns),
            .block = Layout::threads,
            .shared = Layout::shared_bytes},
           arguments);
  });
  if (!launched) reflect_by_rank_one_updates<T>(u, order, x, out, c);
}

template bool reflects_in_registers<float>(Device, Index);
template bool reflects_in_registers<double>(Device, Index);
template void reflect_tiles<float>(MatrixView<const float>, ReflectionOrder, MatrixView<const float>,
                                   MatrixView<float>, MatrixView<float>);
template void reflect_tiles<double>(MatrixView<const double>, ReflectionOrder, MatrixView<const double>,
                                    MatrixView<double>, MatrixView<double>);

}  // namespace orthornn::cuda
