#include "orthornn/text/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/fields_json.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/text/subword_tokenizer.hpp"
#include "orthornn/text/word_tokenizer.hpp"

namespace orthornn {
namespace {

constexpr std::string_view first_line = "orthornn tokenizer 1\n";

/// The line of JSON.
struct Description {
  TokenizerOptions tokens;
  NormalizationOptions normalization;

  static void fields(auto&& visit) {
    visit("tokens", &Description::tokens, domain::any, "kind of tokens");
    visit("normalization", &Description::normalization, domain::any, "what is done with text before");
  }
};

/// `made_from` is sentences, or a content.
template <class MadeFrom>
std::unique_ptr<Tokenizer> make(const Description& description, const MadeFrom& made_from) {
  return std::visit(
      [&]<class Options>(const Options& options) -> std::unique_ptr<Tokenizer> {
        return std::make_unique<typename Options::Made>(options, description.normalization, made_from);
      },
      description.tokens);
}

}  // namespace

void Tokenizer::check_token(std::int32_t token) const {
  if (token >= 0 && token < size()) return;
  throw ValueError(fmt::format("token {} was found; expected 0 to {}", token, size() - 1));
}

std::vector<std::int32_t> Tokenizer::tokens_of_text(std::span<const std::int32_t> tokens) const {
  std::vector<std::int32_t> kept;
  for (const std::int32_t token :
       tokens.first(static_cast<std::size_t>(std::ranges::find(tokens, token_ids::end) - tokens.begin()))) {
    check_token(token);
    if (token != token_ids::padding && token != token_ids::begin) kept.push_back(token);
  }
  return kept;
}

std::string Tokenizer::serialize() const {
  std::string bytes(first_line);
  bytes += json_object(Description{.tokens = options_, .normalization = normalization_}).dump() + "\n";
  return bytes + content();
}

std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerOptions& options,
                                           const NormalizationOptions& normalization,
                                           std::span<const std::string_view> sentences) {
  std::visit([](const auto& own) { check_fields(own.name, own); }, options);
  return make({.tokens = options, .normalization = normalization}, sentences);
}

std::unique_ptr<Tokenizer> load_tokenizer(std::string_view bytes) {
  try {
    if (!bytes.starts_with(first_line))
      throw ValueError("they do not begin with a line 'orthornn tokenizer 1'");
    bytes.remove_prefix(first_line.size());
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) throw ValueError("the second line does not end");
    Description description;
    read_fields(parse_json(bytes.substr(0, end)), description);
    return make(description, bytes.substr(end + 1));
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("these bytes are no tokenizer: {}", error.what()));
  }
}

}  // namespace orthornn
