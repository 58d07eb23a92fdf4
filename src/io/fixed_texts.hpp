#pragma once
// Texts as HDF5 and NumPy keep them in arrays: all of one length, with zero bytes behind the shorter ones.

#include <algorithm>
#include <string>
#include <vector>

namespace orthornn {

/// Texts one after the other.
struct FixedTexts {
  std::size_t width = 1;   ///< Bytes of each text, at least 1.
  std::string bytes = {};  ///< All texts.

  explicit FixedTexts(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) width = std::max(width, text.size());
    bytes.reserve(width * texts.size());
    for (const std::string& text : texts) {
      bytes += text;
      bytes.append(width - text.size(), '\0');
    }
  }
};

}  // namespace orthornn
