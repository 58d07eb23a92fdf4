#pragma once

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// How much text the statistics of a metric were counted over.
struct CorpusSize {
  Index sentences = 0;
  /// Of each sentence.
  Index references = 0;

  /// An empty share adds nothing. Throws ValueError when sentences of the two have different numbers of
  /// references.
  CorpusSize& operator+=(const CorpusSize& share);
  bool operator==(const CorpusSize&) const = default;
};

}  // namespace orthornn
