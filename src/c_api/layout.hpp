#pragma once
// Places of tokens, and the memory of operations on them.

#include "c_api/arguments.hpp"
#include "delta/saved_memory.hpp"
#include "orthornn/delta/token_layout.hpp"

namespace orthornn::c_api {

/// The layout of a caller. Throws ArgumentError, and as TokenLayout.
TokenLayout layout_of(const orthornn_layout* layout);

/// Arrays that the caller of an operation lends. `saved` is null where no backward follows a forward.
struct LentArrays {
  void* saved;
  std::int64_t saved_bytes;
  void* workspace;
  std::int64_t workspace_bytes;
};

/// An operation whose stack is in memory of the caller: first what a forward keeps, if anything, then the
/// workspace.
class StackOperation {
 public:
  /// With the layout's table on the stack. `memory` is that of the operation. Throws ArgumentError for arrays
  /// of another size.
  StackOperation(const orthornn_device* caller, const TokenLayout& layout, Device device, Pass pass,
                 const SavedMemory& memory, const LentArrays& arrays);
  /// Bytes of workspace.
  static std::size_t forward_workspace(Device device, const SavedMemory& memory, bool keeps);
  static std::size_t backward_workspace(Device device, const SavedMemory& memory);

  Saved& saved() { return saved_; }

 private:
  /// `kept` is the caller's array, or empty. The rest, of `scratch` bytes, is made of the workspace.
  StackOperation(const orthornn_device* caller, Device device, TensorView<std::byte> kept,
                 std::size_t scratch, const LentArrays& arrays);

  Operation operation_;
  Tensor<std::byte> scratch_;
  Saved saved_;
};

/// An address for questions about sizes: no number there is read or written.
inline constexpr std::uintptr_t unread_address = LentMemory::alignment;

/// The shape of an array that is there where `present`, as a view for questions about sizes.
template <class T>
TensorView<T> shape_alone(const Shape& shape, Device device, bool present = true) {
  if (!present) return TensorView<T>(nullptr, {0}, device);
  return TensorView<T>(reinterpret_cast<T*>(unread_address), shape, device);
}

/// A view of an array that is there where `present`. Throws ArgumentError, with the reason `why`, for one
/// that is there where it must be NULL.
template <class T, class Void>
TensorView<T> view_if(bool present, const char* name, Void* array, const Shape& shape, Device device,
                      const char* why) {
  if (present) return view_of<T>(name, array, shape, device);
  if (array != nullptr) throw ArgumentError(fmt::format("{} must be NULL: {}", name, why));
  return TensorView<T>(nullptr, {0}, device);
}

}  // namespace orthornn::c_api
