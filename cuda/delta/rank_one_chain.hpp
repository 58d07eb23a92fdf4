#pragma once

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
template <class T>
void rank_one_chain_inverse(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, TensorView<T> inverses, Saved& scratch);

}  // namespace orthornn::cuda
