#include "orthornn/text/chrf.hpp"

#include <cmath>
#include <initializer_list>
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
constexpr double chrf_rounding = 1e-12;

}  // namespace

TEST_CASE("chrF of a perfect translation is 100, whatever its white space", "[text]") {
  const ChrfScore score = chrf(chrf_statistics("El gato\u3000duerme .", Lines{"El gato duerme."}));
  CHECK(score.score == 100);
  CHECK(score_text(score) == "chrF2 = 100.00");
  CHECK(score.signature == "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:orthornn-" + version());
}

TEST_CASE("chrF weighs recall four times as much as precision", "[text]") {
  // Of one character: 2 of 2 and 2 of 3. Of two: 1 of 1 and 1 of 2. The hypothesis has no more orders.
  const double precision = 1, recall = (2.0 / 3 + 1.0 / 2) / 2;
  CHECK(std::abs(chrf(chrf_statistics("ab", Lines{"abc"})).score -
                 100 * 5 * precision * recall / (4 * precision + recall)) < chrf_rounding);
}

TEST_CASE("a character of chrF is a code point", "[text]") {
  // Two characters of two bytes and one of four.
  const ChrfStatistics statistics = chrf_statistics("ñé😀", Lines{"ñé😀"});
  CHECK(statistics.hypothesis_ngrams == std::array<Index, 6>{3, 2, 1, 0, 0, 0});
  // Their first bytes are the same, which is no match.
  CHECK(chrf(chrf_statistics("ñ", Lines{"é"})).score == 0);
}

TEST_CASE("chrF takes the best of several references", "[text]") {
  const ChrfStatistics best = chrf_statistics("gato", Lines{"gato"});
  for (const Lines& references : {Lines{"perro", "gato"}, Lines{"gato", "perro"}}) {
    CHECK(chrf_statistics("gato", references).reference_ngrams == best.reference_ngrams);
    CHECK(chrf(chrf_statistics("gato", references)).score == 100);
  }
}

TEST_CASE("chrF of empty texts is 0", "[text]") {
  CHECK(chrf(chrf_statistics("", Lines{""})).score == 0);
  CHECK(chrf(chrf_statistics("", Lines{"a"})).score == 0);
  CHECK(chrf(chrf_statistics("a", Lines{" "})).score == 0);
}

TEST_CASE("a corpus that has no chrF is refused", "[text]") {
  check_says<ValueError>([] { chrf(chrf_statistics(Lines{}, std::vector<Lines>{Lines{}})); },
                         {"no sentences"});
  check_says<ValueError>([] { chrf_statistics("a", Lines{}); }, {"no references"});
  check_says<ValueError>(
      [] {
        chrf_statistics(Lines{"a"}, std::vector<Lines>{Lines{"a", "b"}});
      },
      {"hypotheses have 1 line", "reference 1 has 2"});
  check_says<ValueError>([] { chrf_statistics("a", Lines{"\xc3"}); }, {"UTF-8"});
  check_says<ValueError>(
      [] {
        ChrfStatistics sum = chrf_statistics("a", Lines{"a"});
        sum += chrf_statistics("a", Lines{"a", "b"});
      },
      {"1 and", "2 references"});
}
