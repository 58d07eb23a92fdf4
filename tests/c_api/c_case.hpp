#pragma once
// What the tests of the C interface share.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "orthornn/c_api.h"
#include "support/catch.hpp"

namespace orthornn::testing {

template <class T>
inline constexpr std::int32_t dtype_of = sizeof(T) == 4 ? ORTHORNN_F32 : ORTHORNN_F64;

/// Requires a status, and shows the message where it is another one.
inline void require_status(orthornn_status found, orthornn_status expected = ORTHORNN_OK) {
  INFO("message: " << orthornn_last_message());
  REQUIRE(found == expected);
}

/// What a function of the C interface that asks for a size answers; its last argument is where to.
template <class Question, class... Arguments>
std::int64_t asked_bytes(const Question& question, const Arguments&... arguments) {
  std::int64_t bytes = -1;
  require_status(question(arguments..., &bytes));
  return bytes;
}

/// Requires an error whose message has a part.
inline void require_error(orthornn_status found, orthornn_status expected, const std::string& part) {
  require_status(found, expected);
  const std::string message = orthornn_last_message();
  INFO("message: " << message << ", expected: " << part);
  REQUIRE(message.find(part) != std::string::npos);
}

/// Memory of a caller, of exactly the bytes that it asked for and with an odd address. Its end is guarded.
class Workspace {
 public:
  explicit Workspace(std::int64_t bytes)
      : bytes_(bytes), memory_(size_of(bytes) + guard + 1, std::byte{0xa5}) {}
  /// Checks that nothing was written behind the end.
  ~Workspace() {
    bool is_whole = true;
    for (std::size_t i = size_of(bytes_) + 1; i < memory_.size(); ++i)
      is_whole = is_whole && memory_[i] == std::byte{0xa5};
    CHECK(is_whole);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* data() { return memory_.data() + 1; }
  std::int64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t guard = 512;
  static std::size_t size_of(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

  std::int64_t bytes_;
  std::vector<std::byte> memory_;
};

}  // namespace orthornn::testing
