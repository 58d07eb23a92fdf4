#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// numpy.random.RandomState(seed).permutation(count), number for number: the published results on permuted
/// MNIST were made with RandomState(92916). NumPy keeps this generator as it is ("legacy random generation").
/// Throws ValueError for a seed of 2^32 or more, which RandomState refuses too.
Tensor<std::int32_t> numpy_permutation(Index count, std::uint64_t seed);

}  // namespace orthornn
