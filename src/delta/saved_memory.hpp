#pragma once
// Sizes of what the operations of this stage push, for a caller that keeps a forward's tensors in memory of
// its own from the forward to the backward. Numbers of inputs are not read: only their shapes count.

#include "cuda/delta/delta_work.hpp"
#include "orthornn/delta/rank_one_chain.hpp"

namespace orthornn {

/// The table of a layout that kernels of a GPU read is pushed below all else. Its bytes are in `kept` and in
/// `forward`: a backward reads that of its forward.
enum class LayoutTable { write, keep };
/// Pushes it where the layout needs one on the stack's device, and gives it to the layout. `write` starts to
/// write it; `keep` takes the numbers that the memory has.
void push_layout_table(const TokenLayout& layout, LayoutTable what, Saved& saved);

/// The bytes with those of the table.
SavedMemory with_layout_table(SavedMemory memory, const TokenLayout& layout, Device device);

/// Bytes for a delta product, with the layout's table. `work.saved` is as it was when this returns. Throws
/// DeviceError and ValueError as the operation where a GPU has no such form.
template <class T>
SavedMemory memory_of(const DeltaWork<T>& work);
/// Pushes what a forward leaves for its backward above the layout's table. On the memory in which that
/// forward pushed, the tensors have the numbers that it left.
template <class T>
void push_kept(const DeltaWork<T>& work);

/// A rank-one chain as its operations take it.
template <class T>
struct ChainWork {
  const RankOneChainInput<T>& input;
  const TokenLayout& layout;
  const RankOneChainOptions& options;
  Saved& saved;
};
/// The same for a rank-one chain.
template <class T>
SavedMemory memory_of(const ChainWork<T>& work);
template <class T>
void push_kept(const ChainWork<T>& work);

}  // namespace orthornn
