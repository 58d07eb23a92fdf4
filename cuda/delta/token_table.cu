#include <algorithm>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/delta/token_table.hpp"

namespace orthornn::cuda {
namespace {

/// Numbers of a row: first row, stride, number of tokens, and number of tokens of all sequences before.
constexpr int width = 4;
/// Sequences of a launch. Arguments of a kernel have 4 KB at most.
constexpr int most_rows = 120;

struct TableRows {
  Index numbers[width * most_rows];
};

__global__ void write_rows(TableRows rows, int count, Index* to) {
  for (int i = static_cast<int>(threadIdx.x); i < width * count; i += static_cast<int>(blockDim.x))
    to[i] = rows.numbers[i];
}

}  // namespace

void write_token_table(const TokenLayout& layout, TensorView<Index> table) {
  const Context& gpu = context(table.device());
  Index before = 0;
  for (Index first = 0; first < layout.size(); first += most_rows) {
    const int count = static_cast<int>(std::min<Index>(layout.size() - first, most_rows));
    TableRows rows{};
    Index* number = rows.numbers;
    for (Index b = first; b < first + count; ++b) {
      for (const Index x : {layout[b].first, layout[b].stride, layout[b].count, before}) *number++ = x;
      before += layout[b].count;
    }
    launch(gpu, write_rows, {.grid = 1, .block = 128}, rows, count, table.data() + width * first);
  }
}

}  // namespace orthornn::cuda
