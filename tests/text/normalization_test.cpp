#include "orthornn/text/normalization.hpp"

#include <initializer_list>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

constexpr NormalizationOptions as_written{.lower_case = false};
constexpr NormalizationOptions bare{.lower_case = true, .strip_accents = true};

}  // namespace

TEST_CASE("Text is lower case and keeps its accents unless it is asked otherwise", "[text]") {
  CHECK(normalize("El Ñandú ÁGIL", {}) == "el ñandú ágil");
  CHECK(normalize("El Ñandú ÁGIL", as_written) == "El Ñandú ÁGIL");
  CHECK(normalize("El Ñandú ÁGIL", bare) == "el nandu agil");
  CHECK(normalize("ÇA, Straße ΑΒΓ Жук", {}) == "ça , straße αβγ жук");
}

TEST_CASE("Composed and decomposed characters become one text, in form C", "[text]") {
  const std::string composed = "\u00F1 \u00E9 \u1E69";             // n tilde, e acute, s with two dots
  const std::string decomposed = "n\u0303 e\u0301 s\u0307\u0323";  // the dots in the wrong order
  CHECK(clean_text(decomposed, {}) == composed);
  CHECK(clean_text(composed, {}) == composed);
  CHECK(clean_text(decomposed, bare) == "n e s");
  CHECK(clean_text("\u212B \u2126", as_written) == "\u00C5 \u03A9");  // Angstrom and Ohm are letters
  CHECK(clean_text("\uAC01", {}) == "\uAC01");                        // a Korean syllable of three parts
  CHECK(clean_text("\uAC01", bare) == "\uAC01");
  CHECK(clean_text("\u2460 \uFB01 \u00BA", {}) == "\u2460 \uFB01 \u00BA");  // no compatibility forms
  CHECK(clean_text("\u1F8A\u1F8A", {}) == "\u1F82\u1F82");  // each of four characters, in three bytes
  CHECK(clean_text("\u0344", {}) == "\u0308\u0301");        // four bytes in place of two
}

TEST_CASE("Characters beyond the first 65536 stay", "[text]") {
  CHECK(normalize("Ok 😀! 𝔘 𐐀", {}) == "ok 😀 ! 𝔘 𐐨");              // Deseret has capital letters
  CHECK(clean_text("\U0001D15E", {}) == "\U0001D157\U0001D165");  // a note, which form C takes apart
}

TEST_CASE("White space becomes single spaces, none at the ends", "[text]") {
  CHECK(clean_text("  a\t b\r\nc\v\fd  ", {}) == "a b c d");
  for (const std::string space : {"\u0085", "\u00A0", "\u1680", "\u2000", "\u2003", "\u200A", "\u2028",
                                  "\u2029", "\u202F", "\u205F", "\u3000"}) {
    CHECK(clean_text("a" + space + space + "b" + space, {}) == "a b");
    CHECK(is_blank(space));
  }
  CHECK(clean_text("a \u0301 b", bare) == "a b");  // a mark alone, which is stripped
  CHECK(clean_text("", {}).empty());
  CHECK(clean_text(" \n", {}).empty());
}

TEST_CASE("Control and format characters are dropped, joiners are not", "[text]") {
  CHECK(clean_text(std::string("a\0b\x1B[31m\x7F", 9), {}) == "ab[31m");
  CHECK(clean_text("a\u0080\u200B\uFEFF\u202E\u00ADb", {}) == "ab");
  CHECK(clean_text("e\u200B\u0301", {}) == "\u00E9");  // what was apart comes together
  CHECK(clean_text("a\u200Cb\u200Dc", {}) == "a\u200Cb\u200Dc");
  CHECK(is_blank(std::string("\0\u200B \t", 6)));
  CHECK_FALSE(is_blank(" a"));
  CHECK_FALSE(is_blank("\u200D"));
  CHECK(is_blank(""));
}

TEST_CASE("Punctuation marks are words of their own", "[text]") {
  CHECK(normalize("¿Qué? ¡No! Sí.", {}) == "¿ qué ? ¡ no ! sí .");
  CHECK(normalize("a.b,c;d:e!f?g", {}) == "a . b , c ; d : e ! f ? g");
  CHECK(normalize("(a) [b] {c} \"d\" «e» “f” —g… 5% #h", {}) ==
        "( a ) [ b ] { c } \" d \" « e » “ f ” — g … 5 % # h");
  CHECK(normalize("wait...", {}) == "wait . . .");
  CHECK(normalize("$10 + 5€ = ¢3", {}) == "$10 + 5€ = ¢3");  // symbols are none
  CHECK(normalize("a 12 b3", {}) == "a 12 b3");
  CHECK(normalize("3.5 1,000 10:30", {}) == "3 . 5 1 , 000 10 : 30");
  CHECK(normalize("a.\u0301b", {}) == "a .\u0301 b");  // a mark stays on what it marks
  CHECK(normalize("。", {}) == "。");
}

TEST_CASE("An apostrophe or hyphen between letters or digits stays in its word", "[text]") {
  CHECK(normalize("Don't, mother-in-law! It’s 10-year-old", {}) ==
        "don't , mother-in-law ! it’s 10-year-old");
  CHECK(normalize("co\u2010op co\u2011op", {}) == "co\u2010op co\u2011op");
  CHECK(normalize("'tis the boys' 'x'", {}) == "' tis the boys ' ' x '");
  CHECK(normalize("a - b -c d- e--f '", {}) == "a - b - c d - e - - f '");
  CHECK(normalize("e\u0301q\u0301'a\u0301", {}) == "\u00E9q\u0301'\u00E1");  // marks belong to letters
  CHECK(normalize("$-a !-a", {}) == "$ - a ! - a");
}

TEST_CASE("A second normalization changes nothing", "[text]") {
  for (const std::string text :
       {"¿Qué? Don't... 'a' 1,5", "a.\u0301b -\u0301c d-\u0301e", "\u0130\u212B \u1E9E",
        "\u0344\u200Ba\u0323\u200B\u0301", "A\u030A\u0300 \U0001D15E", ";\u037E\u0387", "\u0301a \u0301"}) {
    for (const NormalizationOptions& options :
         {NormalizationOptions{}, as_written, bare, {.lower_case = false, .strip_accents = true}}) {
      const std::string once = normalize(text, options);
      CHECK(normalize(once, options) == once);
      const std::string clean = clean_text(text, options);
      CHECK(clean_text(clean, options) == clean);
    }
  }
}

TEST_CASE("What is not UTF-8 is recognised", "[text]") {
  for (const std::string good : {"", "a", "ñ", "€", "😀", "\uD7FF", "\uE000", "\U0010FFFF"})
    CHECK(is_utf8(good));
  CHECK(is_utf8(std::string("a\0b", 3)));
  for (const std::string bad :
       {"\x80", "a\xC3", "\xC3(", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
        "\xF8\x88\x80\x80\x80", "\xFF\xFE", "\xE2\x82", "ok\xE2\x28\xA1"}) {
    CHECK_FALSE(is_utf8(bad));
    CHECK_THROWS_AS(clean_text(bad, {}), ValueError);
    CHECK_THROWS_AS(normalize(bad, {}), ValueError);
    CHECK_THROWS_AS(detokenize(bad), ValueError);
    CHECK_THROWS_AS(is_blank(bad), ValueError);
  }
  CHECK_THROWS_WITH(check_utf8("the sentence", "añ\xE9o"),
                    contains("the sentence is not UTF-8: its byte 4 is 0xe9"));
}
