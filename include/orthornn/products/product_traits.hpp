#pragma once

#include <string>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// Properties of the product by which Q is applied.
struct ProductTraits {
  /// Name of the form: "dense", "factored", "sequential" or "rank-one".
  std::string form;
  /// Number of coefficients that a product records for each column: L, or 0 for dense forms.
  Index coefficient_count = 0;
  /// Number of which the columns of a thread are a multiple. It keeps the column groups of the product kernel
  /// and the reflection tiles whole, so that results do not depend on the number of threads. A GPU takes all
  /// columns at once.
  Index column_grain = 16;
  /// Largest number of kernels of one product on a GPU.
  Index launches = 3;
  /// Whether a CUDA graph can and should hold the product; false where each reflection is a launch.
  bool recordable = true;
};

}  // namespace orthornn
