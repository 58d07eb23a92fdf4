#include "products/reflect_tiles.hpp"

#include <algorithm>

#include "core/back_end.hpp"
#include "core/thread_scratch.hpp"
#include "cuda/products/reflect_tiles.hpp"
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
  const auto reflector = [&](Index step) {
    return order == ReflectionOrder::first_to_last ? step : reflections - 1 - step;
  };
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

template bool tiles_stay_on_chip<float>(Device, Index);
template bool tiles_stay_on_chip<double>(Device, Index);
template void reflect_tiles<float>(MatrixView<const float>, ReflectionOrder, MatrixView<const float>,
                                   MatrixView<float>, MatrixView<float>);
template void reflect_tiles<double>(MatrixView<const double>, ReflectionOrder, MatrixView<const double>,
                                    MatrixView<double>, MatrixView<double>);

}  // namespace orthornn
