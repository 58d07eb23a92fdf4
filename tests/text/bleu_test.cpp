#include "orthornn/text/bleu.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/version.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

using Lines = std::vector<std::string>;

// A few roundings of numbers up to 100.
constexpr double bleu_rounding = 1e-12;

}  // namespace

TEST_CASE("BLEU of a perfect translation is 100", "[text]") {
  const Lines lines{"The cat sat on the mat.", "Short one."};
  const BleuScore score = bleu(bleu_statistics(lines, std::vector<Lines>{lines}));
  CHECK(score.score == 100);
  CHECK(score.brevity_penalty == 1);
  CHECK(score_text(score) ==
        "BLEU = 100.00 100.0/100.0/100.0/100.0 (BP = 1.000 ratio = 1.000 hyp_len = 10 ref_len = 10)");
}

TEST_CASE("orders without matches count half a match, then a quarter", "[text]") {
  // One of six words, none of five pairs, four triples and three quadruples; e - 1 of the words are missing.
  const BleuScore score = bleu(bleu_statistics("a b c d e f", Lines{"a x y z u v w"}));
  CHECK(std::abs(score.precisions[0] - 100.0 / 6) < bleu_rounding);
  CHECK(std::abs(score.precisions[1] - 100.0 / 2 / 5) < bleu_rounding);
  CHECK(std::abs(score.precisions[2] - 100.0 / 4 / 4) < bleu_rounding);
  CHECK(std::abs(score.precisions[3] - 100.0 / 8 / 3) < bleu_rounding);
  const double product = 1.0 / 6 / (2 * 5) / (4 * 4) / (8 * 3);
  CHECK(std::abs(score.score - 100 * std::exp(1 - 7.0 / 6) * std::pow(product, 0.25)) < bleu_rounding);
}

TEST_CASE("BLEU without a matching word is 0, with precisions of 0", "[text]") {
  const BleuScore score = bleu(bleu_statistics("a b c d e", Lines{"v w x y z"}));
  CHECK(score.score == 0);
  CHECK(score.precisions == std::array<double, 4>{});
  CHECK(score.brevity_penalty == 1);
}

TEST_CASE("BLEU of a corpus without four words in a row is 0", "[text]") {
  const BleuScore score = bleu(bleu_statistics("one two three", Lines{"one two three"}));
  CHECK(score.score == 0);
  CHECK(score.precisions == std::array<double, 4>{100, 100, 100, 0});
}

TEST_CASE("an empty hypothesis has a brevity penalty of 0", "[text]") {
  const BleuScore score = bleu(bleu_statistics("", Lines{"a b"}));
  CHECK(score.score == 0);
  CHECK(score.brevity_penalty == 0);
  CHECK(score_text(score) ==
        "BLEU = 0.00 0.0/0.0/0.0/0.0 (BP = 0.000 ratio = 0.000 hyp_len = 0 ref_len = 2)");
}

TEST_CASE("of several references, the closest length counts, and the shorter of two as close", "[text]") {
  CHECK(bleu_statistics("a b c", Lines{"a b c d e f", "a b"}).reference_length == 2);
  CHECK(bleu_statistics("a b c", Lines{"a b c d", "a b"}).reference_length == 2);
  CHECK(bleu_statistics("a b c", Lines{"a b", "a b c d"}).reference_length == 2);
}

TEST_CASE("a word matches as often as one reference has it", "[text]") {
  // The first reference has "the" twice, the second once: two of seven match, not three.
  const BleuStatistics statistics =
      bleu_statistics("the the the the the the the", Lines{"the cat is on the mat", "there is the cat"});
  CHECK(statistics.matches == std::array<Index, 4>{2, 0, 0, 0});
  CHECK(statistics.ngrams == std::array<Index, 4>{7, 6, 5, 4});
}

TEST_CASE("the signature of BLEU names the number of references and this library", "[text]") {
  CHECK(bleu(bleu_statistics("a", Lines{"a", "b"})).signature ==
        "nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:orthornn-" + version());
}

TEST_CASE("a corpus that has no BLEU is refused", "[text]") {
  check_says<ValueError>([] { bleu(bleu_statistics(Lines{}, std::vector<Lines>{Lines{}})); },
                         {"no sentences"});
  check_says<ValueError>([] { bleu(BleuStatistics{}); }, {"no sentences"});
  check_says<ValueError>([] { bleu_statistics(Lines{"a"}, std::vector<Lines>{}); }, {"no references"});
  check_says<ValueError>([] { bleu_statistics(Lines{}, std::vector<Lines>{}); }, {"no references"});
  check_says<ValueError>([] { bleu_statistics("a", Lines{}); }, {"no references"});
  check_says<ValueError>(
      [] {
        bleu_statistics(Lines{"a", "b", "c"}, std::vector<Lines>{Lines{"a", "b", "c"}, Lines{"a", "b"}});
      },
      {"hypotheses have 3 lines", "reference 2 has 2"});
  check_says<ValueError>(
      [] {
        bleu_statistics(Lines{"a", "\xff"}, std::vector<Lines>{Lines{"a", "b"}});
      },
      {"line 2", "UTF-8"});
  check_says<ValueError>(
      [] {
        BleuStatistics sum = bleu_statistics("a", Lines{"a"});
        sum += bleu_statistics("a", Lines{"a", "b"});
      },
      {"1 and", "2 references"});
}

TEST_CASE("counts of BLEU do not overflow 32 bits", "[text]") {
  BleuStatistics sum = bleu_statistics("a b c d", Lines{"a b c d"});
  for (int doubling = 0; doubling < 34; ++doubling) sum += BleuStatistics(sum);
  CHECK(sum.hypothesis_length == Index{1} << 36);
  CHECK(bleu(sum).score == 100);
}
