#pragma once

#include <initializer_list>
#include <string>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"

namespace orthornn::testing {

/// `call` throws an E whose message holds all these words.
template <class E, class Call>
void check_says(const Call& call, std::initializer_list<std::string> words) {
  const std::string message = error_message<E>(call);
  for (const std::string& word : words) CHECK_THAT(message, contains(word));
}

}  // namespace orthornn::testing
