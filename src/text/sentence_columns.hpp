#pragma once
// Sentences side by side in a batch: a column each, on any device.

#include <cstdint>
#include <span>
#include <vector>

#include "orthornn/core/host_staging.hpp"

namespace orthornn {

/// Tokens without begin and end.
using Sentences = std::span<const std::vector<std::int32_t>* const>;

/// x [T, B] <- each sentence with its end, then padding; lengths [B] <- their tokens, the end counted. T is
/// the largest of these. `staging` is kept from batch to batch: no call allocates once it and the tensors are
/// large enough, and none waits for what a GPU does with earlier batches.
void write_with_ends(Sentences sentences, std::int32_t padding, Tensor<std::int32_t>& x,
                     Tensor<std::int32_t>& lengths, HostStaging& staging);

/// The same, one step later and behind the begin: what is known of a sentence before each of its T steps.
void write_after_begin(Sentences sentences, std::int32_t padding, Tensor<std::int32_t>& x,
                       HostStaging& staging);

}  // namespace orthornn
