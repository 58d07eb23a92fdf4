#include "delta/saved_memory.hpp"

#include "core/back_end.hpp"
#include "cuda/delta/token_table.hpp"

namespace orthornn {
namespace {

/// Shape of the table; no elements where none is needed.
Shape table_of(const TokenLayout& layout, Device device) {
  return {device.is_cuda() && !layout.is_regular() ? layout.size() : 0, 4};
}

}  // namespace

SavedMemory with_layout_table(SavedMemory memory, const TokenLayout& layout, Device device) {
  const std::size_t table = Saved::bytes_of(table_of(layout, device), sizeof(Index));
  memory.kept += table;
  memory.forward += table;
  return memory;
}

void push_layout_table(const TokenLayout& layout, LayoutTable what, Saved& saved) {
  const Shape shape = table_of(layout, saved.device());
  if (shape.count() == 0) return;
  const TensorView<Index> table = saved.push<Index>(shape);
  layout.use_table(table);
  if constexpr (has_cuda_bodies) {
    if (what == LayoutTable::write) cuda::write_token_table(layout, table);
  }
}

}  // namespace orthornn
