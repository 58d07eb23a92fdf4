#pragma once

#include <string>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// How Q is applied, as far as callers ask.
struct ProductTraits {
  /// "dense", "factored", "sequential" or "rank-one".
  std::string form;
  /// L for forms that record coefficients, 0 for dense ones.
  Index coefficient_count = 0;
  /// Threads take columns in multiples of this: it holds the product kernel's column group and the reflection
  /// tiles together, so that results do not depend on the number of threads. A GPU takes all columns at once.
  Index column_grain = 16;
  /// Kernels that a product is on a GPU, at most.
  Index launches = 3;
  /// Whether a CUDA graph can and should hold it: not where each reflection is a launch.
  bool recordable = true;
};

}  // namespace orthornn
