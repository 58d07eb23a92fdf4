#include "orthornn/tasks/language_task.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <string>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/score.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Sums of products of digits, minus signs and brackets, modulo 5, from text.
class Calculator {
 public:
  explicit Calculator(std::string text) : text_(std::move(text)) {}
  int value() {
    const int result = sum();
    REQUIRE(at_ == text_.size());
    return result;
  }

 private:
  bool takes(char c) { return at_ < text_.size() && text_[at_] == c && ++at_ > 0; }
  int sum() {
    int result = product();
    for (;;) {
      if (takes('+')) {
        result = (result + product()) % 5;
      } else if (takes('-')) {
        result = (result + 5 - product()) % 5;
      } else {
        return result;
      }
    }
  }
  int product() {
    int result = factor();
    while (takes('*')) result = result * factor() % 5;
    return result;
  }
  int factor() {
    if (takes('-')) return (5 - factor()) % 5;
    if (takes('(')) {
      const int result = sum();
      REQUIRE(takes(')'));
      return result;
    }
    REQUIRE(at_ < text_.size());
    REQUIRE((text_[at_] >= '0' && text_[at_] <= '4'));
    return text_[at_++] - '0';
  }

  std::string text_;
  std::size_t at_ = 0;
};

std::string sentence(const Batch& batch, Index b, const char* letters) {
  std::string text;
  for (Index t = 0; t < batch.integers(batch_names::lengths)(b); ++t)
    text += letters[batch.integers(batch_names::symbols)(t, b)];
  return text;
}

int answer(Language language, const std::string& text) {
  const auto count = [&](char c) { return static_cast<int>(std::ranges::count(text, c)); };
  switch (language) {
    case Language::parity:
      return count('b') % 2;
    case Language::even_pairs:
      return text.front() != text.back();
    case Language::cycle:
      return ((count('+') - count('-')) % 5 + 5) % 5;
    default:
      return Calculator(text).value();
  }
}

const char* letters_of(Language language) {
  if (language == Language::cycle) return "0+-";
  return language == Language::parity || language == Language::even_pairs ? "ab" : "01234+-*()";
}

}  // namespace

TEST_CASE("answers of languages are those of a few independent lines", "[language]") {
  const auto language = GENERATE(Language::parity, Language::even_pairs, Language::modular,
                                 Language::modular_brackets, Language::cycle);
  CAPTURE(name_of(language));
  const LanguageTask task(
      {.language = language, .shortest = 1, .length = 30, .test_length = 60, .batch = 400});
  Batch batch;
  std::set<int> lengths;
  std::map<int, int> answers;
  std::set<std::int32_t> symbols;
  for (std::uint64_t step = 0; step < 4; ++step) {
    task.training_batch(step, batch);
    REQUIRE(batch.integers(batch_names::symbols).shape() == Shape{30, 400});
    REQUIRE(batch.integers(batch_names::lengths).shape() == Shape{400});
    REQUIRE(batch.integers(batch_names::classes).shape() == Shape{400});
    for (Index b = 0; b < 400; ++b) {
      const std::string text = sentence(batch, b, letters_of(language));
      CAPTURE(text);
      REQUIRE(batch.integers(batch_names::classes)(b) == answer(language, text));
      lengths.insert(static_cast<int>(text.size()));
      ++answers[batch.integers(batch_names::classes)(b)];
      for (Index t = 0; t < 30; ++t) {
        symbols.insert(batch.integers(batch_names::symbols)(t, b));
        if (t >= std::ssize(text)) REQUIRE(batch.integers(batch_names::symbols)(t, b) == 0);
      }
    }
  }
  // All lengths, odd ones alone for digits and signs by turns; all symbols and all answers.
  CHECK(lengths.size() == (language == Language::modular ? 15 : 30));
  CHECK(*lengths.rbegin() == (language == Language::modular ? 29 : 30));
  CHECK(std::ssize(symbols) == task.data().symbols);
  CHECK(std::ssize(answers) == task.data().classes);
  for (const auto& [value, times] : answers) CHECK(times > 1600 / task.data().classes / 2);
}

TEST_CASE("test sentences of languages are longer than those to train on", "[language]") {
  const LanguageTask task(
      {.language = Language::cycle, .shortest = 3, .length = 9, .test_length = 20, .batch = 300});
  for (const auto& [set, shortest, longest] :
       {std::tuple(HeldOut::validation, 3, 9), std::tuple(HeldOut::test, 9, 20)}) {
    Index count = 0;
    std::set<std::int32_t> lengths;
    for (Index number = 0; number < task.evaluation_batches(set); ++number) {
      Batch batch;
      task.evaluation_batch(set, number, batch);
      count += batch.integers(batch_names::classes).size();
      for (const std::int32_t length : batch.integers(batch_names::lengths).view()) lengths.insert(length);
    }
    CHECK(count == 1000);
    CHECK(*lengths.begin() == shortest);
    CHECK(*lengths.rbegin() == longest);
    CHECK(std::ssize(lengths) == longest - shortest + 1);
  }
  const auto fixed = task.with_length(50, 4);
  Batch batch;
  fixed->evaluation_batch(HeldOut::test, 0, batch);
  CHECK(std::ranges::all_of(batch.integers(batch_names::lengths).view(),
                            [](std::int32_t l) { return l == 50; }));
}

TEST_CASE("a sentence of 100,000 symbols in brackets needs no deep recursion", "[language]") {
  const LanguageTask task({.language = Language::modular_brackets,
                           .shortest = 100'000,
                           .length = 100'000,
                           .test_length = 100'000,
                           .batch = 1});
  Batch batch;
  task.training_batch(0, batch);
  const std::string text = sentence(batch, 0, letters_of(Language::modular_brackets));
  CHECK(text.size() == 100'000);
  CHECK(std::ranges::count(text, '(') == std::ranges::count(text, ')'));
}

TEST_CASE("languages have baselines, configs and sentences that refuse", "[language]") {
  const LanguageTask parity({.batch = 10, .seed = 3});
  // Of 1000 answers a half, give or take sqrt(1000) / 2: the entropy is less than ln 2 by 2 (16/1000)^2.
  CHECK(parity.baseline_loss() == Approx(std::log(2.0)).margin(0.01));
  // Of another language by counting.
  const LanguageTask cycle({.language = Language::cycle, .length = 3, .batch = 400});
  std::map<std::int32_t, int> times;
  for (Index number = 0; number < cycle.evaluation_batches(HeldOut::validation); ++number) {
    Batch batch;
    cycle.evaluation_batch(HeldOut::validation, number, batch);
    for (const std::int32_t found : batch.integers(batch_names::classes).view()) ++times[found];
  }
  double entropy = 0;
  for (const auto& [found, count] : times) entropy -= count / 1000.0 * std::log(count / 1000.0);
  CHECK(cycle.baseline_loss() == Approx(entropy).epsilon(1e-12));
  CHECK(entropy < std::log(5.0) - 0.02);  // few steps end near the start
  // As many symbols as there may be end in a moment.
  CHECK(LanguageTask({.length = 1 << 30, .test_length = 1 << 30, .batch = 1}).baseline_loss() > 0.68);
  const auto rebuilt = make_task(parity.config(), {.batch = 10, .seed = 3});
  CHECK(rebuilt->config() == parity.config());
  Batch a, b;
  parity.training_batch(4, a);
  rebuilt->training_batch(4, b);
  CHECK(std::ranges::equal(a.integers(batch_names::symbols).view(), b.integers(batch_names::symbols).view()));
  parity.training_batch(5, b);
  CHECK_FALSE(
      std::ranges::equal(a.integers(batch_names::symbols).view(), b.integers(batch_names::symbols).view()));

  const auto refusal = [](const LanguageOptions& options) {
    return error_message<ValueError>([&] { LanguageTask task(options); });
  };
  CHECK_THAT(refusal({.shortest = 0}), contains("shortest is 0"));
  CHECK_THAT(refusal({.shortest = 3, .length = 2}), contains("shortest is 3, length 2"));
  CHECK_THAT(refusal({.test_length = 20}), contains("test_length 20"));
  CHECK_THAT(refusal({.test_length = Index{1} << 40}), contains("at most"));
  CHECK_THAT(error_message<ValueError>([] { make_task(R"({"task": "language", "language": "dyck"})", {}); }),
             contains("dyck") && contains("parity, even-pairs"));
}
