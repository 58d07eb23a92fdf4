#pragma once
// Text as the usual tutorials on translation prepare it. Everything is UTF-8.

#include <string>
#include <string_view>

#include "orthornn/core/fields.hpp"

namespace orthornn {

struct NormalizationOptions {
  /// Letters in lower case, by Unicode's simple mapping of single characters.
  bool lower_case = true;
  /// Without accents: nonspacing marks (category Mn) are removed after canonical decomposition, so n remains
  /// of an n with tilde.
  bool strip_accents = false;

  static void fields(auto&& visit) {
    using Self = NormalizationOptions;
    visit("lower_case", &Self::lower_case, domain::any, "letters in lower case");
    visit("strip_accents", &Self::strip_accents, domain::any, "letters without accents");
  }
};

/// Is this UTF-8: no surrogates, no overlong forms, nothing above U+10FFFF?
bool is_utf8(std::string_view text);

/// Throws ValueError, naming `what`, the first wrong byte and its place, unless `text` is UTF-8.
void check_utf8(const char* what, std::string_view text);

/// Whether `clean_text` leaves nothing of it. Throws ValueError for text that is not UTF-8.
bool is_blank(std::string_view text);

/// The text in Unicode's normalization form C, with the letters that the options ask for. Runs of white space
/// (property White_Space) become one space, none at the beginning and the end. Control and format characters
/// (categories Cc and Cf) are dropped, but for the joiners U+200C and U+200D, which some scripts spell words
/// with. A second call changes nothing. Throws ValueError for text that is not UTF-8.
std::string clean_text(std::string_view text, const NormalizationOptions& options);

/// `clean_text` with punctuation as words of their own: "Don't go, Tom!" becomes "don't go , tom !". This is
/// every character of category P, with the marks on it. An apostrophe (U+0027, U+2019) or hyphen (U+002D,
/// U+2010, U+2011) between two letters or digits stays in its word: don't, mother-in-law, 10-year-old.
/// Symbols such as $ and + (category S) stay where they are.
std::string normalize(std::string_view sentence, const NormalizationOptions& options);

/// Joins words with spaces between them, such as a normalised sentence, to a sentence for readers. What a
/// sentence does not tell is guessed:
///
///   no space before   . , ? ! ; : % and closing brackets and quotes
///   no space after    inverted ? and !, opening brackets and quotes
///   " and '           open and close in turn; a ' without partner is an apostrophe: the boys' toys
///   numbers           no space around . and : between digits, and around a comma before three: 1.5, 1,000
///   initials          no space around . between letters alone: 6 a.m., the U.S.
///
/// Case and accents that were removed stay so. Throws ValueError for text that is not UTF-8.
std::string detokenize(std::string_view sentence);

}  // namespace orthornn
