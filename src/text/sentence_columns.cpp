#include "text/sentence_columns.hpp"

#include <algorithm>

#include "orthornn/text/tokenizer.hpp"

namespace orthornn {
namespace {

/// x <- what `write` writes to a tensor of this shape.
template <class Write>
void write_on_host(Tensor<std::int32_t>& x, const Shape& shape, HostStaging& staging, const Write& write) {
  x.reserve(shape);
  staging.fill(x.view(), write);
}

Index length_of(const std::vector<std::int32_t>& sentence) { return std::ssize(sentence) + 1; }

/// Rows `first` .. T - 1 of x <- each sentence with its end, then padding.
void write_columns(Sentences sentences, std::int32_t padding, Index first, TensorView<std::int32_t> x) {
  for (Index b = 0; b < std::ssize(sentences); ++b) {
    const std::vector<std::int32_t>& tokens = *sentences[static_cast<std::size_t>(b)];
    for (Index t = first; t < x.shape()[0]; ++t) {
      const Index token = t - first;
      x(t, b) = token < std::ssize(tokens)    ? tokens[static_cast<std::size_t>(token)]
                : token == std::ssize(tokens) ? token_ids::end
                                              : padding;
    }
  }
}

Shape shape_of(Sentences sentences) {
  Index longest = 0;
  for (const auto* sentence : sentences) longest = std::max(longest, length_of(*sentence));
  return {longest, std::ssize(sentences)};
}

}  // namespace

void write_with_ends(Sentences sentences, std::int32_t padding, Tensor<std::int32_t>& x,
                     Tensor<std::int32_t>& lengths, HostStaging& staging) {
  write_on_host(x, shape_of(sentences), staging,
                [&](TensorView<std::int32_t> to) { write_columns(sentences, padding, 0, to); });
  write_on_host(lengths, {std::ssize(sentences)}, staging, [&](TensorView<std::int32_t> to) {
    for (Index b = 0; b < to.size(); ++b)
      to(b) = static_cast<std::int32_t>(length_of(*sentences[static_cast<std::size_t>(b)]));
  });
}

void write_after_begin(Sentences sentences, std::int32_t padding, Tensor<std::int32_t>& x,
                       HostStaging& staging) {
  write_on_host(x, shape_of(sentences), staging, [&](TensorView<std::int32_t> to) {
    std::ranges::fill(to[0], token_ids::begin);
    write_columns(sentences, padding, 1, to);
  });
}

}  // namespace orthornn
