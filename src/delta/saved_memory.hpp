#pragma once
// Sizes of what the operations of this stage push, for a caller that keeps a forward's tensors in memory of
// its own from the forward to the backward. Numbers of inputs are not read: only their shapes count.

#include "cuda/delta/delta_work.hpp"
#include "orthornn/delta/rank_one_chain.hpp"

namespace orthornn {

/// Bytes of tensors on a stack, each with the gap behind it.
struct SavedMemory {
  std::size_t kept,  ///< What a forward leaves for its backward.
      forward,       ///< What a forward pushes without a backward.
      backward;      ///< What a backward pushes beside what the forward left.
};

/// Bytes for a delta product on the CPU. `work.saved` is as it was when this returns. Throws DeviceError for
/// a GPU, whose kernels alone know what they keep.
template <class T>
SavedMemory memory_of(const DeltaWork<T>& work);
/// Pushes what a forward on the CPU leaves for its backward. On the memory in which that forward pushed, the
/// tensors have the numbers that it left.
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
