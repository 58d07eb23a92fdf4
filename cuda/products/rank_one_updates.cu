#include <algorithm>

#include "cuda/core/for_each.hpp"
#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/linalg/elementwise.hpp"
#include "cuda/products/reflections.hpp"
#include "pointwise/matrices.hpp"

namespace orthornn::cuda {
namespace {

// One warp for each column.
constexpr unsigned columns_of_block = 8;

/// Columns of the gradient taken at a time, so that their copies do not grow with T.
constexpr Index gradient_columns = 8192;

/// x <- x - 2 u (u . x), and projection <- 2 u . x, for this lane's part of the warp's column.
template <class T>
__device__ T reflect_column(const T* u, T* x, Index n) {
  const unsigned lane = threadIdx.x % warp_size;
  T sum = 0;
  for (Index k = lane; k < n; k += warp_size) sum += u[k] * x[k];
  const T projection = 2 * warp_sum(sum);
  for (Index k = lane; k < n; k += warp_size) x[k] -= projection * u[k];
  return projection;
}

template <class T>
__global__ void reflect_kernel(const T* u, T* states, Index n, Index columns, T* projections,
                               Index projection_stride) {
  const Index column = grid_thread() / warp_size;
  if (column >= columns) return;
  const T projection = reflect_column(u, states + column * n, n);
  if (projections != nullptr && threadIdx.x % warp_size == 0) {
    projections[column * projection_stride] = projection;
  }
}

/// Undoes a reflection of the state, and projects the gradient on the reflection's vector.
template <class T>
__global__ void walk_back_kernel(const T* u, T* states, const T* gradients, Index n, Index columns,
                                 T* of_states, T* of_gradients) {
  const unsigned lane = threadIdx.x % warp_size;
  const Index column = grid_thread() / warp_size;
  if (column >= columns) return;
  const T of_state = reflect_column(u, states + column * n, n);
  T sum = 0;
  for (Index k = lane; k < n; k += warp_size) sum += u[k] * gradients[column * n + k];
  sum = warp_sum(sum);
  if (lane == 0) {
    of_states[column] = of_state;
    of_gradients[column] = 2 * sum;
  }
}

// One block for a few rows of all columns.
constexpr unsigned rows_of_block = 8;
constexpr unsigned columns_at_a_time = 32;

/// du += sum of gradient * of_state - state * of_gradient over the columns, then the gradient is reflected.
template <class T>
__global__ void gradient_kernel(const T* u, const T* states, T* gradients, Index n, Index columns,
                                const T* of_states, const T* of_gradients, T* du) {
  __shared__ T partial[columns_at_a_time][rows_of_block];
  const Index row = static_cast<Index>(blockIdx.x) * rows_of_block + threadIdx.x;
  T sum = 0;
  if (row < n) {
    for (Index column = threadIdx.y; column < columns; column += columns_at_a_time) {
      const Index place = column * n + row;
      const T gradient = gradients[place];
      // The reflection changed the sign of u . x: of_state is -2 u . x_i.
      sum += gradient * of_states[column] - states[place] * of_gradients[column];
      gradients[place] = gradient - of_gradients[column] * u[row];
    }
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || row >= n) return;
  for (unsigned i = 1; i < columns_at_a_time; ++i) sum += partial[i][threadIdx.x];
  du[row] += sum;
}

LaunchShape shape_for(Index columns) {
  return {.grid = blocks_for(columns, columns_of_block), .block = columns_of_block * warp_size};
}

}  // namespace

template <class T>
void reflect_by_rank_one_updates(MatrixView<const T> u, ReflectionOrder order, MatrixView<const T> x,
                                 MatrixView<T> out, MatrixView<T> c) {
  if (x.cols == 0) return;
  Context& gpu = context(out.device);
  const MatrixView<T> states{gpu.scratch<T>(static_cast<std::size_t>(u.rows * x.cols)), u.rows, x.cols,
                             u.rows, out.device};
  copy_matrix<T>(x, states);
  for (Index step = 0; step < u.cols; ++step) {
    const Index i = reflection_at(step, u.cols, order);
    T* projections = c.data == nullptr ? nullptr : c.data + i;
    launch(gpu, reflect_kernel<T>, shape_for(x.cols), u.column(i), states.data, u.rows, x.cols, projections,
           c.stride);
  }
  for_each_entry(out.device, out.rows, out.cols,
                 pointwise::AddMatrix<T>{states.data, states.stride, out.data, out.stride});
}

template <class T>
void gradient_by_rank_one_updates(MatrixView<const T> u, MatrixView<const T> g, MatrixView<const T> x,
                                  MatrixView<T> d_u) {
  Context& gpu = context(d_u.device);
  const Index n = u.rows;
  set_zero<T>(d_u);
  const Index most = std::min(gradient_columns, x.cols);
  T* memory = gpu.scratch<T>(static_cast<std::size_t>(2 * n * most + 2 * most));
  T* of_states = memory + 2 * n * most;
  T* of_gradients = of_states + most;
  for (Index first = 0; first < x.cols; first += most) {
    const Index count = std::min(most, x.cols - first);
    const MatrixView<T> states{memory, n, count, n, d_u.device};
    const MatrixView<T> gradients{memory + n * most, n, count, n, d_u.device};
    copy_matrix<T>(x.columns(first, count), states);
    copy_matrix<T>(g.columns(first, count), gradients);
    for (Index i = u.cols - 1; i >= 0; --i) {
      launch(gpu, reflect_kernel<T>, shape_for(count), u.column(i), states.data, n, count, nullptr, 0);
    }
    for (Index i = 0; i < u.cols; ++i) {
      launch(gpu, walk_back_kernel<T>, shape_for(count), u.column(i), states.data, gradients.data, n, count,
             of_states, of_gradients);
      launch(gpu, gradient_kernel<T>,
             {.grid = blocks_for(n, rows_of_block), .block = dim3(rows_of_block, columns_at_a_time)},
             u.column(i), states.data, gradients.data, n, count, of_states, of_gradients, d_u.column(i));
    }
  }
}

#define ORTHORNN_INSTANTIATE(T)                                                                           \
  template void reflect_by_rank_one_updates<T>(MatrixView<const T>, ReflectionOrder, MatrixView<const T>, \
                                               MatrixView<T>, MatrixView<T>);                             \
  template void gradient_by_rank_one_updates<T>(MatrixView<const T>, MatrixView<const T>,                 \
                                                MatrixView<const T>, MatrixView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
