#pragma once

#include <string>
#include <string_view>

namespace orthornn {

/// Returns the tokens of a line of text, separated by one space, as `13a` of sacreBLEU makes them (Post, "A
/// call for clarity in reporting BLEU scores", WMT 2018). They are the tokens of NIST's mteval-v13a.pl:
///
/// 1. White space at the end of the line and the mark `<skipped>` are removed, a hyphen at the end of an
/// inner
///    line joins its two words, and `&quot;` `&amp;` `&lt;` `&gt;` become their characters, each once, in
///    this order.
/// 2. ASCII punctuation other than ' , - . becomes a token.
/// 3. A period or comma becomes a token unless digits are on both of its sides.
/// 4. A hyphen after a digit becomes a token.
///
/// Digits are 0 to 9. White space is that of Unicode: the categories Zs, WS, B and S. Throws ValueError for
/// text that is not UTF-8.
std::string tokenize_13a(std::string_view line);

}  // namespace orthornn
