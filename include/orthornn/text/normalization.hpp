#pragma once
// Text as the usual tutorials on translation prepare it. Everything is UTF-8.

#include <string>
#include <string_view>

#include "orthornn/core/fields.hpp"

namespace orthornn {

/// How text is normalised.
struct NormalizationOptions {
  /// Whether letters become lower case, by Unicode's simple mapping of single characters.
  bool lower_case = true;
  /// Whether accents are removed: nonspacing marks (category Mn) are removed after canonical decomposition,
  /// so an n with tilde becomes n.
  bool strip_accents = false;

  static void fields(auto&& visit) {
    using Self = NormalizationOptions;
    visit("lower_case", &Self::lower_case, domain::any, "letters in lower case");
    visit("strip_accents", &Self::strip_accents, domain::any, "letters without accents");
  }
};

/// Whether a text is UTF-8: it has no surrogates, no overlong forms and no code point above U+10FFFF.
bool is_utf8(std::string_view text);

/// Throws ValueError unless `text` is UTF-8; the message names `what`, the first wrong byte and its place.
void check_utf8(const char* what, std::string_view text);

/// Whether `clean_text` returns an empty text. Throws ValueError for text that is not UTF-8.
bool is_blank(std::string_view text);

/// Returns the text in Unicode's normalization form C, with the letters that the options ask for. Runs of
/// white space (property White_Space) become one space, and white space at the beginning and the end is
/// removed. Control and format characters (categories Cc and Cf) are removed, except the joiners U+200C and
/// U+200D, with which some scripts spell words. A second call changes nothing. Throws ValueError for text
/// that is not UTF-8.
std::string clean_text(std::string_view text, const NormalizationOptions& options);

/// Returns `clean_text` with punctuation as words of their own: "Don't go, Tom!" becomes "don't go , tom !".
/// Punctuation is every character of category P, with the marks on it. An apostrophe (U+0027, U+2019) or
/// hyphen (U+002D, U+2010, U+2011) between two letters or digits stays in its word: don't, mother-in-law,
/// 10-year-old. Symbols such as $ and + (category S) stay where they are. Throws ValueError for text that is
/// not UTF-8.
std::string normalize(std::string_view sentence, const NormalizationOptions& options);

/// Joins words with spaces between them, such as a normalised sentence, to a sentence for readers. Spaces and
/// quotes follow these rules:
///
/// - There is no space before . , ? ! ; : % and closing brackets and quotes.
/// - There is no space after inverted ? and !, opening brackets and quotes.
/// - The quotes " and ' open and close in turn; a ' without partner is an apostrophe: the boys' toys.
/// - Numbers have no space around . and : between digits, and around a comma before three: 1.5, 1,000.
/// - Initials have no space around . between letters alone: 6 a.m., the U.S.
///
/// Case and accents that were removed are not restored. Throws ValueError for text that is not UTF-8.
std::string detokenize(std::string_view sentence);

}  // namespace orthornn
