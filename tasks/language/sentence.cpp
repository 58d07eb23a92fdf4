#include "tasks/language/sentence.hpp"

namespace orthornn {
namespace {

constexpr std::int32_t modulus = LanguageTask::modulus;

std::int32_t modulo(std::int32_t value) { return (value % modulus + modulus) % modulus; }

std::int32_t apply(std::int32_t sign, std::int32_t left, std::int32_t right) {
  switch (sign) {
    case LanguageTask::plus:
      return modulo(left + right);
    case LanguageTask::minus:
      return modulo(left - right);
    default:
      return modulo(left * right);
  }
}

std::int32_t draw(RandomStream& random, Index count) {
  return static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(count)));
}

/// Digits and signs by turns. The value is `sum` plus or minus the product that is not finished.
std::int32_t draw_sum_of_products(Index length, RandomStream& random, std::vector<std::int32_t>& symbols) {
  std::int32_t sum = 0, product = draw(random, modulus), sign_of_product = LanguageTask::plus;
  symbols.push_back(product);
  for (Index t = 1; t + 1 < length; t += 2) {
    const std::int32_t sign = LanguageTask::plus + draw(random, 3), digit = draw(random, modulus);
    symbols.push_back(sign);
    symbols.push_back(digit);
    if (sign == LanguageTask::times) {
      product = modulo(product * digit);
    } else {
      sum = apply(sign_of_product, sum, product);
      product = digit;
      sign_of_product = sign;
    }
  }
  return apply(sign_of_product, sum, product);
}

/// d, -d, (d), (-d), or (E + E) and the like, whose parts share the length at random. What is still to do is
/// on a stack, for an expression may be nested as deep as it is long.
std::int32_t draw_brackets(Index length, RandomStream& random, std::vector<std::int32_t>& symbols) {
  enum class Kind { expression, symbol, negate, apply };
  struct Item {
    Kind kind;
    Index number;
  };
  // They keep their memory from sentence to sentence.
  thread_local std::vector<Item> todo;
  thread_local std::vector<std::int32_t> values;
  todo.assign(1, {Kind::expression, length});
  values.clear();
  while (!todo.empty()) {
    const auto [kind, number] = todo.back();
    todo.pop_back();
    if (kind == Kind::symbol) {
      symbols.push_back(static_cast<std::int32_t>(number));
    } else if (kind == Kind::negate) {
      values.back() = modulo(-values.back());
    } else if (kind == Kind::apply) {
      const std::int32_t right = values.back();
      values.pop_back();
      values.back() = apply(static_cast<std::int32_t>(number), values.back(), right);
    } else if (number == 1) {
      values.push_back(draw(random, modulus));
      symbols.push_back(values.back());
    } else if (number == 2) {
      symbols.push_back(LanguageTask::minus);
      todo.push_back({Kind::negate, 0});
      todo.push_back({Kind::expression, 1});
    } else {
      symbols.push_back(LanguageTask::open);
      todo.push_back({Kind::symbol, LanguageTask::close});
      if (number < 5) {
        todo.push_back({Kind::expression, number - 2});
        continue;
      }
      const std::int32_t sign = LanguageTask::plus + draw(random, 3);
      const Index left = 1 + draw(random, number - 4);
      todo.push_back({Kind::apply, sign});
      todo.push_back({Kind::expression, number - 3 - left});
      todo.push_back({Kind::symbol, sign});
      todo.push_back({Kind::expression, left});
    }
  }
  return values.back();
}

}  // namespace

Index symbols_of(Language language) {
  switch (language) {
    case Language::parity:
    case Language::even_pairs:
      return 2;
    case Language::cycle:
      return 3;
    case Language::modular:
      return LanguageTask::times + 1;
    default:
      return LanguageTask::close + 1;
  }
}

Index answers_of(Language language) {
  return language == Language::parity || language == Language::even_pairs ? 2 : modulus;
}

Index draw_length(Language language, Index shortest, Index longest, RandomStream& random) {
  const Index length = shortest + random.integer(static_cast<std::uint32_t>(longest - shortest + 1));
  return language == Language::modular && length % 2 == 0 ? length - 1 : length;
}

std::int32_t draw_sentence(Language language, Index length, RandomStream& random,
                           std::vector<std::int32_t>& symbols) {
  symbols.clear();
  if (language == Language::modular) return draw_sum_of_products(length, random, symbols);
  if (language == Language::modular_brackets) return draw_brackets(length, random, symbols);
  std::int32_t answer = 0;
  for (Index t = 0; t < length; ++t) {
    const std::int32_t symbol = draw(random, symbols_of(language));
    symbols.push_back(symbol);
    if (language == Language::parity) answer ^= symbol;
    if (language == Language::even_pairs) answer = symbol ^ symbols.front();
    if (language == Language::cycle) answer = modulo(answer + (symbol == 2 ? -1 : symbol));
  }
  return answer;
}

}  // namespace orthornn
