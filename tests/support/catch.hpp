#pragma once
// Catch2 of either generation: 2.13 is one header, 3 is several, and renamed a class and a matcher.

#include <string>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

namespace orthornn::testing {

#if __has_include(<catch2/catch_all.hpp>)
using Approx = Catch::Approx;
#else
using Approx = Catch::Detail::Approx;
#endif

/// For CHECK_THROWS_WITH(call, contains("words")).
inline auto contains(const std::string& words) {
#if __has_include(<catch2/catch_all.hpp>)
  return Catch::Matchers::ContainsSubstring(words);
#else
  return Catch::Matchers::Contains(words);
#endif
}

}  // namespace orthornn::testing
