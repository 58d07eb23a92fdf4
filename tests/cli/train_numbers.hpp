#pragma once

#include <filesystem>

#include "cli/run_program.hpp"
#include "support/sentence_pairs.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"

namespace orthornn::testing {

/// The command of a small training that translates digits to words, with more options behind it. Their text
/// is written into the folder.
inline Arguments train_numbers(const TemporaryFolder& folder, const std::filesystem::path& out,
                               const Arguments& more = {}) {
  const std::filesystem::path data = write_text(folder / "pairs.txt", number_pairs(100));
  return Arguments{"train", "translate", "--data", data.string(), "--hidden",  "8", "--embedding-size",
                   "6",     "--batch",   "16",     "--out",       out.string()} +
         more;
}

}  // namespace orthornn::testing
