#pragma once

#include "orthornn/delta/token_layout.hpp"

namespace orthornn::cuda {

/// Writes the table of TokenLayout::on to memory of a GPU. Nothing waits, and the host's numbers are not read
/// later: they travel with the launches. So operations that are recorded may write it.
void write_token_table(const TokenLayout& layout, TensorView<Index> table);

}  // namespace orthornn::cuda
