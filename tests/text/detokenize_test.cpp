#include <initializer_list>
#include <string>

#include "orthornn/text/normalization.hpp"
#include "support/catch.hpp"

using namespace orthornn;

TEST_CASE("Words become a sentence for readers", "[text]") {
  CHECK(detokenize("hello , tom !") == "hello, tom!");
  CHECK(detokenize("¿ qué ? ¡ no ! sí ; a : b .") == "¿qué? ¡no! sí; a: b.");
  CHECK(detokenize("( a ) [ b ] { c } « d » “ e ” 5 % wait …") == "(a) [b] {c} «d» “e” 5% wait…");
  CHECK(detokenize("a - b — c / d & e") == "a - b — c / d & e");
  CHECK(detokenize("wait . . .") == "wait...");
  CHECK(detokenize("") == "");
  CHECK(detokenize("  a   b ") == "a b");
  CHECK(detokenize("Él dijo : ¿ qué ?") == "Él dijo: ¿qué?");  // the case stays
}

TEST_CASE("Quotes open and close in turn", "[text]") {
  CHECK(detokenize("\" a \" , he said , \" b ! \"") == "\"a\", he said, \"b!\"");
  CHECK(detokenize("' a ' ' b '") == "'a' 'b'");
  CHECK(detokenize("the boys ' toys") == "the boys' toys");
  CHECK(detokenize("' the boys ' toys '") == "'the boys' toys'");
  CHECK(detokenize("' tis don't") == "' tis don't");
}

TEST_CASE("Numbers and initials come together", "[text]") {
  CHECK(detokenize("at 10 : 30 , 1 . 5 or $10 , 000 .") == "at 10:30, 1.5 or $10,000.");
  CHECK(detokenize("in 1990 , 50 people and 7 , 12 and 1000") == "in 1990, 50 people and 7, 12 and 1000");
  CHECK(detokenize("6 : 00 a . m . in the u . s .") == "6:00 a.m. in the u.s.");
  CHECK(detokenize("a . tom") == "a. tom");
}

TEST_CASE("Joining undoes what normalization took apart", "[text]") {
  for (const std::string sentence :
       {"¿qué hora es? son las 10:30.", "tom said, \"i don't know (yet).\"", "«no», dijo él; ¡qué lástima!",
        "my mother-in-law's 1,000 books...", "50% of the u.s. population: 1.5 million."}) {
    CHECK(detokenize(normalize(sentence, {})) == sentence);
  }
}
