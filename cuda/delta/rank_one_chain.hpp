#pragma once

#include "cuda/delta/delta_work.hpp"
#include "orthornn/delta/rank_one_chain.hpp"

namespace orthornn::cuda {

/// As those of orthornn (src/delta), in device memory, with chunks of at most 32 factors. Throw ValueError
/// for vectors that are too long for shared memory. Rows of padding are neither read nor written.
template <class T>
void rank_one_chain(const RankOneChainInput<T>& input, const TokenLayout& layout,
                    const RankOneChainOptions& options, TensorView<T> outputs, TensorView<T> final_states,
                    bool keep, Saved& saved);
template <class T>
void rank_one_chain_backward(const RankOneChainInput<T>& input, const TokenLayout& layout,
                             const RankOneChainOptions& options, const RankOneChainGradients<T>& gradients,
                             Saved& saved);
/// What the two push, without the layout's table; and pushes what a forward keeps on `saved`.
template <class T>
SavedMemory memory_of_chain(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, Device device);
template <class T>
void push_kept_of_chain(const RankOneChainInput<T>& input, const TokenLayout& layout,
                        const RankOneChainOptions& options, Saved& saved);
template <class T>
void rank_one_chain_inverse(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, TensorView<T> inverses, Saved& scratch);

}  // namespace orthornn::cuda
