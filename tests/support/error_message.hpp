#pragma once

#include <string>

namespace orthornn::testing {

/// What an E that `call` throws says, for CHECK_THAT(.., contains("words")); "" when it throws nothing.
/// Anything else that it throws passes.
template <class E, class Call>
std::string error_message(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace orthornn::testing
