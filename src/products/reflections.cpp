#include "products/reflections.hpp"

#include <algorithm>

#include "core/back_end.hpp"
#include "core/thread_scratch.hpp"
#include "cuda/products/reflections.hpp"
#include "linalg/eigen_map.hpp"
#include "products/plan.hpp"

namespace orthornn {
namespace {

template <class T>
struct Lanes {
  static constexpr Index count = tile_bytes / sizeof(T);
  typedef T Type __attribute__((vector_size(tile_bytes)));
};

struct TileMemory;

/// tile_n -= previous_n * factor for all n, and projection = sum_n next_n * tile_n: one pass, two
/// reflections. Four sums side by side hide the latency of the multiply-adds. Registers are passed by
/// reference: by value, the calling convention would depend on the target processor.
template <class T, class Vector = typename Lanes<T>::Type>
void update_and_project(Vector* tile, Index n, const T* previous, const Vector& factor, const T* next,
                        Vector& projection) {
  Vector sum[4] = {};
  Index i = 0;
  for (; i + 4 <= n; i += 4) {
    for (Index k = 0; k < 4; ++k) {
      const Vector updated = tile[i + k] - previous[i + k] * factor;
      tile[i + k] = updated;
      sum[k] += next[i + k] * updated;
    }
  }
  for (; i < n; ++i) {
    tile[i] -= previous[i] * factor;
    sum[0] += next[i] * tile[i];
  }
  projection = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

template <class T>
using Row = Eigen::Map<Eigen::Matrix<T, 1, Eigen::Dynamic>>;

struct ProjectionMemory;
struct StateMemory;
struct GradientMemory;

/// Columns of the gradient taken at a time: a batch of the usual size.
constexpr Index gradient_columns = 128;

/// x <- x - 2 u (u . x) for all columns; projections [columns] are 2 u . x before the update.
template <class T, class Vector, class State>
void reflect(const Vector& u, State& x, Row<T>& projections) {
  projections.noalias() = T{2} * u.transpose() * x;
  x.noalias() -= u * projections;
}

}  // namespace

template <class T>
void reflect_tiles(MatrixView<const std::type_identity_t<T>> u, ReflectionOrder order,
                   MatrixView<const std::type_identity_t<T>> x, MatrixView<T> out, MatrixView<T> c) {
  if constexpr (has_cuda_bodies) {
    if (out.device.is_cuda()) return cuda::reflect_tiles<T>(u, order, x, out, c);
  }
  using Vector = typename Lanes<T>::Type;
  constexpr Index lanes = Lanes<T>::count;
  const Index n = u.rows;
  const Index reflections = u.cols;
  Vector* tile = reinterpret_cast<Vector*>(thread_scratch<T, TileMemory>(n * lanes));
  const auto reflector = [&](Index step) { return reflection_at(step, reflections, order); };
  for (Index first = 0; first < x.cols; first += lanes) {
    const Index cols = std::min(lanes, x.cols - first);
    for (Index i = 0; i < n; ++i) tile[i] = Vector{};
    for (Index j = 0; j < cols; ++j) {
      for (Index i = 0; i < n; ++i) tile[i][j] = x(i, first + j);
    }
    // The first pass only projects: it subtracts nothing.
    Vector factor{};
    const T* previous = u.column(reflector(0));
    for (Index step = 0; step < reflections; ++step) {
      const Index i = reflector(step);
      const T* next = u.column(i);
      Vector projection;
      update_and_project<T>(tile, n, previous, factor, next, projection);
      factor = T{2} * projection;
      for (Index j = 0; j < cols; ++j) c(i, first + j) = factor[j];
      previous = next;
    }
    for (Index i = 0; i < n; ++i) tile[i] -= previous[i] * factor;
    for (Index j = 0; j < cols; ++j) {
      for (Index i = 0; i < n; ++i) out(i, first + j) += tile[i][j];
    }
  }
}

template <class T>
bool tiles_stay_on_chip(Device device, Index rows) {
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) return cuda::reflects_in_registers<T>(device, rows);
  }
  return true;
}

template <class T>
void reflect_by_rank_one_updates(MatrixView<const std::type_identity_t<T>> u, ReflectionOrder order,
                                 MatrixView<const std::type_identity_t<T>> x, MatrixView<T> out) {
  if constexpr (has_cuda_bodies) {
    if (out.device.is_cuda()) return cuda::reflect_by_rank_one_updates<T>(u, order, x, out);
  }
  const MatrixView<T> work{thread_scratch<T, StateMemory>(u.rows * x.cols), u.rows, x.cols, u.rows};
  Row<T> projections(thread_scratch<T, ProjectionMemory>(x.cols), x.cols);
  auto state = eigen(work);
  state = eigen(x);
  for (Index step = 0; step < u.cols; ++step) {
    const Index i = reflection_at(step, u.cols, order);
    reflect<T>(eigen(u).col(i), state, projections);
  }
  eigen(out) += state;
}

template <class T>
void gradient_by_rank_one_updates(MatrixView<const std::type_identity_t<T>> u,
                                  MatrixView<const std::type_identity_t<T>> g,
                                  MatrixView<const std::type_identity_t<T>> x, MatrixView<T> d_u) {
  if constexpr (has_cuda_bodies) {
    if (d_u.device.is_cuda()) return cuda::gradient_by_rank_one_updates<T>(u, g, x, d_u);
  }
  eigen(d_u).setZero();
  const auto units = eigen(u);
  for (Index first = 0; first < x.cols; first += gradient_columns) {
    const Index count = std::min(gradient_columns, x.cols - first);
    const MatrixView<T> states{thread_scratch<T, StateMemory>(2 * u.rows * count), u.rows, count, u.rows};
    const MatrixView<T> gradients{thread_scratch<T, GradientMemory>(u.rows * count), u.rows, count, u.rows};
    T* memory = thread_scratch<T, ProjectionMemory>(2 * count);
    Row<T> of_state(memory, count);
    Row<T> of_gradient(memory + count, count);
    auto state = eigen(states);
    auto gradient = eigen(gradients);
    state = eigen(x.columns(first, count));
    gradient = eigen(g.columns(first, count));
    for (Index i = u.cols - 1; i >= 0; --i) reflect<T>(units.col(i), state, of_state);
    for (Index i = 0; i < u.cols; ++i) {
      reflect<T>(units.col(i), state, of_state);
      // The reflection changed the sign of u . x: of_state is -2 u . x_i.
      auto du = eigen(d_u).col(i);
      du.noalias() += gradient * of_state.transpose();
      of_gradient.noalias() = T{2} * units.col(i).transpose() * gradient;
      du.noalias() -= state * of_gradient.transpose();
      gradient.noalias() -= units.col(i) * of_gradient;
    }
  }
}

#define ORTHORNN_INSTANTIATE(T)                                                                            \
  template void reflect_tiles<T>(MatrixView<const T>, ReflectionOrder, MatrixView<const T>, MatrixView<T>, \
                                 MatrixView<T>);                                                           \
  template bool tiles_stay_on_chip<T>(Device, Index);                                                      \
  template void reflect_by_rank_one_updates<T>(MatrixView<const T>, ReflectionOrder, MatrixView<const T>,  \
                                               MatrixView<T>);                                             \
  template void gradient_by_rank_one_updates<T>(MatrixView<const T>, MatrixView<const T>,                  \
                                                MatrixView<const T>, MatrixView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
