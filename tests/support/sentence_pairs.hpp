#pragma once
// Generated texts of sentence pairs, tab-separated as read_parallel_text takes them.

#include <string>
#include <string_view>

namespace orthornn::testing {

/// 0 .. 9999 in English words: "four hundred seven".
inline std::string number_words(int number) {
  static constexpr std::string_view below_twenty[] = {
      "zero",     "one",     "two",     "three",     "four",     "five",    "six",
      "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
      "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static constexpr std::string_view tens[] = {"twenty", "thirty",  "forty",  "fifty",
                                              "sixty",  "seventy", "eighty", "ninety"};
  std::string words;
  const auto say = [&](std::string_view word) { (words += words.empty() ? "" : " ") += word; };
  if (number >= 1000) {
    say(below_twenty[number / 1000]);
    say("thousand");
    number %= 1000;
  }
  if (number >= 100) {
    say(below_twenty[number / 100]);
    say("hundred");
    number %= 100;
  }
  if (number >= 20) {
    say(tens[number / 10 - 2]);
    number %= 10;
    if (number > 0) say(below_twenty[number]);
  } else if (number > 0 || words.empty()) {
    say(below_twenty[number]);
  }
  return words;
}

/// Numbers below `count` in digits, a space between them, and in words: "4 0 7<tab>four hundred seven".
inline std::string number_pairs(int count) {
  std::string text;
  for (int number = 0; number < count; ++number) {
    const std::string digits = std::to_string(number);
    for (std::size_t i = 0; i < digits.size(); ++i) (text += i == 0 ? "" : " ") += digits[i];
    text += "\t" + number_words(number) + "\n";
  }
  return text;
}

}  // namespace orthornn::testing
