#include "layers/add_by_symbol.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/back_end.hpp"
#include "cuda/layers/add_by_symbol.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

// A key is a symbol and, in its lower half, a position. Sorted keys have the positions of a symbol together
// and in order.
constexpr int position_bits = 32;

std::uint64_t symbol_of(std::uint64_t key) { return key >> position_bits; }

/// sums [rows, N] in the order of the keys; `sum` [N] is scratch.
template <class T>
void add_sorted(TensorView<const T> g, TensorView<const std::uint64_t> keys, TensorView<T> sums,
                TensorView<double> sum) {
  const Index size = sum.size();
  const auto symbol_count = static_cast<std::uint64_t>(sums.shape()[0]);
  std::fill(sum.begin(), sum.end(), 0.0);
  for (Index i = 0; i < keys.size(); ++i) {
    // A negative symbol is a large one here.
    const std::uint64_t symbol = symbol_of(keys(i));
    if (symbol >= symbol_count) return;
    const auto position = static_cast<Index>(static_cast<std::uint32_t>(keys(i)));
    const T* const term = g.data() + position * size;
    for (Index n = 0; n < size; ++n) sum(n) += static_cast<double>(term[n]);
    if (i + 1 < keys.size() && symbol_of(keys(i + 1)) == symbol) continue;
    T* const to = sums.data() + static_cast<Index>(symbol) * size;
    for (Index n = 0; n < size; ++n) to[n] += static_cast<T>(sum(n));
    std::fill(sum.begin(), sum.end(), 0.0);
  }
}

}  // namespace

template <class T>
void add_by_symbol(TensorView<const T> g, TensorView<const std::int32_t> symbols, TensorView<T> sums,
                   Saved& scratch) {
  const Index count = symbols.size();
  if (count >= Index{1} << position_bits)
    throw ShapeError(fmt::format("{} rows were given to a sum by symbols; expected below 2^32", count));
  Shape expected = symbols.shape();
  expected.append(sums.shape()[1]);
  check_shape("rows of a sum by symbols", g.shape(), expected);
  if (g.empty()) return;
  const Saved::Scope scope(scratch);
  if constexpr (has_cuda_bodies) {
    if (g.device().is_cuda()) return cuda::add_by_symbol<T>(g, symbols, sums, scratch);
  }
  const TensorView<std::uint64_t> keys = scratch.push<std::uint64_t>({count});
  for (Index i = 0; i < count; ++i) {
    const auto symbol = static_cast<std::uint64_t>(static_cast<std::uint32_t>(symbols.data()[i]));
    keys(i) = symbol << position_bits | static_cast<std::uint64_t>(i);
  }
  std::sort(keys.begin(), keys.end());
  add_sorted<T>(g, keys, sums, scratch.push<double>({sums.shape()[1]}));
}

#define ORTHORNN_INSTANTIATE(T) \
  template void add_by_symbol<T>(TensorView<const T>, TensorView<const std::int32_t>, TensorView<T>, Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
