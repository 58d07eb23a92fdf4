#pragma once

namespace orthornn {

/// Order in which the reflections of a product are applied to a vector.
enum class ReflectionOrder {
  first_to_last,  ///< The first reflection acts first, as in Q^T.
  last_to_first   ///< The last reflection acts first, as in Q.
};

}  // namespace orthornn
