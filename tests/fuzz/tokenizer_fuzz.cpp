// The bytes of a tokenizer. One that they make writes bytes that make it again, and encodes every text.

#include <initializer_list>

#include "fuzz/fuzz_target.hpp"
#include "orthornn/text/tokenizer.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes = fuzz::text_of({data, size});
  std::unique_ptr<Tokenizer> tokenizer;
  if (!accepted([&] { tokenizer = load_tokenizer(bytes); })) return 0;
  const std::string written = tokenizer->serialize();
  require(load_tokenizer(written)->serialize() == written, "a tokenizer changes when it is loaded again");
  std::vector<std::int32_t> all;
  for (std::int32_t token = 0; token < tokenizer->size(); ++token) {
    require(is_utf8(tokenizer->text_of(token)), "a token is not UTF-8");
    if (token != token_ids::end) all.push_back(token);
  }
  const std::string decoded = tokenizer->decode(all);
  require(is_utf8(decoded), "what is decoded is not UTF-8");
  // The bytes themselves are a text of the tokens and of others.
  for (const std::string& text : {decoded, bytes}) {
    accepted([&] {
      for (const std::int32_t token : tokenizer->encode(text)) {
        require(
            token == token_ids::unknown || (token >= token_ids::first_of_text && token < tokenizer->size()),
            "a text has a token that is none of text");
      }
    });
  }
  return 0;
}
