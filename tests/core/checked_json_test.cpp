#include "core/checked_json.hpp"

#include <initializer_list>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"

using namespace orthornn;
using orthornn::testing::contains;

TEST_CASE("JSON is parsed to a depth of 32 levels and no further", "[json]") {
  const auto nested = [](int levels) {
    return std::string(static_cast<std::size_t>(levels), '[') +
           std::string(static_cast<std::size_t>(levels), ']');
  };
  CHECK(parse_json(nested(32)).dump() == nested(32));
  CHECK_THROWS_WITH(parse_json(nested(33)), contains("nested too deeply") && contains("32"));
  CHECK_THROWS_WITH(parse_json(std::string(1000000, '{')), contains("nested too deeply"));
  // Brackets in text are none, also after an escaped quotation mark.
  const std::string brackets = R"(["\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\"])";
  CHECK(parse_json(brackets).dump() == brackets);
  for (const char* text : {"", "{", "[1,]", "nul", "\"\xff\"", "{} {}"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_json(text), ValueError);
  }
  CHECK_THROWS_WITH(parse_json("[1,]"),
                    contains("this is not JSON: parse error at line 1, column 4") && !contains("exception"));
}

TEST_CASE("a member of a JSON object is what is asked for or an error with its key", "[json]") {
  const Json object =
      parse_json(R"({"whole": 7, "negative": -3, "fraction": 0.5, "exponent": 1e30, "yes": true,
                                     "largest": 9223372036854775807, "above": 9223372036854775808,
                                     "words": "seven", "nothing": null, "list": [1]})");
  CHECK(integer_member(object, "whole") == 7);
  CHECK(integer_member(object, "negative") == -3);
  CHECK(integer_member(object, "largest") == 9223372036854775807);
  CHECK(unsigned_member(object, "above") == 9223372036854775808U);
  CHECK(real_member(object, "whole") == 7);
  CHECK(real_member(object, "fraction") == 0.5);
  CHECK(boolean_member(object, "yes"));
  CHECK(text_member(object, "words") == "seven");
  CHECK(array_member(object, "list").size() == 1);
  for (const char* key : {"fraction", "exponent", "yes", "above", "words", "nothing", "list"}) {
    CAPTURE(key);
    CHECK_THROWS_WITH(integer_member(object, key), contains(key) && contains("expected a whole number"));
  }
  CHECK_THROWS_WITH(whole_number("one", member(object, "negative"), 0), contains("from 0 on"));
  CHECK_THROWS_AS(unsigned_member(object, "negative"), ValueError);
  for (const char* key : {"yes", "words", "nothing"}) CHECK_THROWS_AS(real_member(object, key), ValueError);
  CHECK_THROWS_AS(boolean_member(object, "whole"), ValueError);
  CHECK_THROWS_AS(text_member(object, "whole"), ValueError);
  CHECK_THROWS_AS(array_member(object, "words"), ValueError);
  CHECK_THROWS_AS(object_member(object, "list"), ValueError);
  CHECK_THROWS_WITH(member(object, "absent"), contains("'absent' is missing"));
  CHECK_THROWS_WITH(member(parse_json("3"), "key"), contains("expected an object"));
}
