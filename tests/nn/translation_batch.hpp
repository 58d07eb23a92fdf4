#pragma once

#include "orthornn/nn/encoder_decoder.hpp"
#include "support/random_tensor.hpp"
#include "support/small_batch.hpp"

namespace orthornn::testing {

/// Random sources of S and answers of T symbols, of which the first target does count. `with_lengths`: live
/// steps of each kind from 0 to all.
inline Batch translation_batch(const EncoderDecoderOptions& options, Index source_length, Index target_length,
                               Index batch, bool with_lengths, std::uint64_t seed = 7) {
  Batch result;
  RandomStream random(seed, RandomPurpose::validation, 99);
  const auto draw = [&](std::string_view name, Index length, Index symbols, std::int32_t first) {
    result.integers(name).resize({length, batch});
    for (std::int32_t& s : result.integers(name))
      s = first + static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(symbols - first)));
  };
  draw(batch_names::source, source_length, options.source_symbols, 0);
  draw(batch_names::target, target_length, options.target_symbols, 0);
  draw(batch_names::classes, target_length, options.target_symbols, -1);
  *result.integers(batch_names::classes).begin() = 0;
  if (with_lengths) {
    result.integers(batch_names::source_lengths) = mixed_lengths(source_length, batch);
    result.integers(batch_names::target_lengths) = mixed_lengths(target_length, batch);
  }
  return result;
}

}  // namespace orthornn::testing
