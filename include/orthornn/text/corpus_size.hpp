#pragma once

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Size of the text over which the statistics of a metric were counted.
struct CorpusSize {
  /// Number of sentences.
  Index sentences = 0;
  /// Number of references of each sentence.
  Index references = 0;

  /// Adds the size of another share; an empty share adds nothing. Throws ValueError when sentences of the two
  /// shares have different numbers of references.
  CorpusSize& operator+=(const CorpusSize& share);
  bool operator==(const CorpusSize&) const = default;
};

}  // namespace orthornn
