// Sentence pairs as a text, as the bytes of a zip archive, and as a member of a sound one. What is read is
// normalised, joined again, split and shuffled.

#include <zip.h>

#include <initializer_list>

#include "fuzz/edit_program.hpp"
#include "orthornn/text/normalization.hpp"
#include "orthornn/text/parallel_text.hpp"
#include "orthornn/text/split.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

namespace {

/// An archive with a member *.txt of these bytes, and perhaps notes beside it.
void write_archive(const std::filesystem::path& path, Bytes bytes, bool stored, const std::string& name) {
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  require(archive != nullptr, "libzip does not start");
  const auto add = [&](const char* member, Bytes content) {
    const zip_int64_t index =
        zip_file_add(archive, member, zip_source_buffer(archive, content.data(), content.size(), 0), 0);
    require(index >= 0, "libzip does not add a member");
    if (stored) zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  };
  add("pairs.txt", bytes);
  if (!name.empty() && is_utf8(name) && name != "pairs.txt") add(name.c_str(), {});
  require(zip_close(archive) == 0, "libzip does not end");
}

void use(const ParallelText& text) {
  require(!text.pairs.empty(), "no pair was read");
  const std::string described = describe(text.skipped);
  require(described.empty() == text.skipped.empty(), "what was skipped is not described");
  for (const SentencePair& pair : text.pairs) {
    for (const std::string& sentence : {pair.source, pair.target}) {
      for (const bool both : {false, true}) {
        const NormalizationOptions options{.lower_case = both, .strip_accents = both};
        const std::string once = normalize(sentence, options);
        require(normalize(once, options) == once, "a second normalization changes '" + sentence + "'");
        const std::string clean = clean_text(sentence, options);
        require(clean_text(clean, options) == clean, "a second cleaning changes '" + sentence + "'");
        require(is_utf8(detokenize(once)), "what is joined is not UTF-8");
      }
    }
  }
  accepted([&] {
    const SplitPairs split = split_pairs(shuffled(text.pairs, 1), Column::source, {}, 1);
    require(split.training.size() + split.validation.size() + split.test.size() == text.pairs.size(),
            "the split loses pairs");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static InputFile file;
  EditProgram program({data, size});
  const std::size_t kind = program.below(4);
  if (kind < 2) {
    file.write(program.rest());
  } else {
    const std::string name = text_of(program.some(program.below(16)));
    write_archive(file.path(), program.rest(), kind == 2, name);
  }
  accepted(file.path(), [&] { use(read_parallel_text(file.path(), {.reverse = kind == 1})); });
  return 0;
}
