#pragma once
// Places of tokens, and the memory of operations on them.

#include <optional>
#include <span>

#include "c_api/arguments.hpp"
#include "delta/saved_memory.hpp"
#include "orthornn/delta/token_layout.hpp"

namespace orthornn::c_api {

/// The layout of a caller. Throws ArgumentError, and as TokenLayout.
TokenLayout layout_of(const orthornn_layout* layout);

/// The stack of an operation, in memory of the caller: first what a forward keeps, if anything, then the
/// workspace.
class LentStack {
 public:
  /// `kept` is the caller's array, or empty. The rest, of `scratch` bytes, is made of the workspace.
  LentStack(Device device, TensorView<std::byte> kept, std::size_t scratch);

  Saved& saved() { return saved_; }

  /// Workspace for so much scratch.
  static std::size_t workspace(Device device, std::size_t scratch) {
    return planned_bytes(device, [&] { memory_of(device, scratch); });
  }

 private:
  static Tensor<std::byte> memory_of(Device device, std::size_t scratch);

  Tensor<std::byte> scratch_;
  Saved saved_;
};

/// The caller's array of what a forward keeps. Throws ArgumentError unless it has exactly `expected` bytes.
TensorView<std::byte> kept_view(void* saved, std::int64_t given, std::size_t expected, Device device);

}  // namespace orthornn::c_api
