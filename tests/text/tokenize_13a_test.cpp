#include "orthornn/text/tokenize_13a.hpp"

#include <string>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("periods and commas stay only between digits", "[text]") {
  CHECK(tokenize_13a("1,000.5 a.b 1.a a,1 .5 5.") == "1,000.5 a . b 1 . a a , 1 . 5 5 .");
  // The rules for the two sides see pairs from left to right, so that three stops are not three alike.
  CHECK(tokenize_13a("1..2") == "1 . . 2");
  CHECK(tokenize_13a("...") == ". . .");
}

TEST_CASE("a hyphen is a token only after a digit", "[text]") {
  CHECK(tokenize_13a("well-known 3-5 -4 x-1 1--2") == "well-known 3 - 5 -4 x-1 1 - -2");
}

TEST_CASE("ASCII punctuation is separated, other punctuation and the apostrophe are not", "[text]") {
  CHECK(tokenize_13a("(don't) ¿qué? «x» 5%/$6") == "( don't ) ¿qué ? «x» 5 % / $ 6");
}

TEST_CASE("marks, entities and line ends are replaced in the order of mteval", "[text]") {
  CHECK(tokenize_13a("a<skipped>b &quot;&amp;&lt;&gt;") == "ab \" & < >");
  // &amp; comes before &lt; and after &quot;.
  CHECK(tokenize_13a("&amp;lt; &amp;quot;") == "< & quot ;");
  // What a replacement joins is not replaced again.
  CHECK(tokenize_13a("&amp;amp; &am<skipped>p;") == "& amp ; &");
  CHECK(tokenize_13a("<skip<skipped>ped>") == "< skipped >");
  CHECK(tokenize_13a("hy-\nphen new\nline end-\n") == "hyphen new line end-");
}

TEST_CASE("words are separated by the white space of Unicode", "[text]") {
  // A no-break space, an ideographic space, NEXT LINE and a file separator. A zero-width space is not white
  // space.
  CHECK(tokenize_13a(" a\u00a0b\u3000c\u0085 \x1c"
                     "d\u200be\t") == "a b c d\u200be");
  // A form feed, LINE SEPARATOR and PARAGRAPH SEPARATOR are no spaces by category.
  CHECK(tokenize_13a("a\fb\u2028c\u2029d") == "a b c d");
  CHECK(tokenize_13a(" \u2003\n").empty());
}

TEST_CASE("text that is not UTF-8 is refused with the byte and its place", "[text]") {
  check_says<ValueError>([] { tokenize_13a("ni\xf1o"); }, {"0xf1", "position 2", "UTF-8"});
  CHECK_THROWS_AS(tokenize_13a("cut short \xc3"), ValueError);
  CHECK_THROWS_AS(tokenize_13a("surrogate \xed\xa0\x80"), ValueError);
}
