#include "c_api/layout.hpp"

namespace orthornn::c_api {
namespace {

enum class Order { sequence_major, time_major, packed };

Tensor<std::byte> scratch_of(Device device, std::size_t bytes) {
  Tensor<std::byte> memory(Shape{0}, device);
  memory.reserve({static_cast<Index>(bytes)});
  return memory;
}

/// Workspace for so much scratch.
std::size_t workspace_of(Device device, std::size_t scratch) {
  return planned_bytes(device, [&] { scratch_of(device, scratch); });
}

/// The caller's array of what a forward keeps. Throws ArgumentError unless it has exactly `expected` bytes.
TensorView<std::byte> kept_view(const LentArrays& arrays, std::size_t expected, Device device) {
  if (size_of("saved_bytes", arrays.saved_bytes, 0) != static_cast<Index>(expected))
    throw ArgumentError(fmt::format("saved has {} bytes, expected {}", arrays.saved_bytes, expected));
  // It begins with a table of Index, whose alignment it needs.
  view_of<Index>("saved", arrays.saved, {static_cast<Index>(expected / sizeof(Index))}, device);
  if (device.is_cuda() && reinterpret_cast<std::uintptr_t>(arrays.saved) % LentMemory::alignment != 0)
    throw ArgumentError(fmt::format("the address of saved is no multiple of {}, which kernels of a GPU need",
                                    LentMemory::alignment));
  if (arrays.saved == nullptr) return {};
  return TensorView<std::byte>(static_cast<std::byte*>(arrays.saved), {static_cast<Index>(expected)}, device);
}

/// Bytes that a forward pushes beside what it keeps.
std::size_t forward_scratch(const SavedMemory& memory, bool keeps) {
  return keeps ? memory.keeping : memory.forward;
}

/// Whether there must be what a forward keeps for its backward.
bool has_kept(Pass pass, const LentArrays& arrays) {
  return pass == Pass::backward || arrays.saved != nullptr;
}

}  // namespace

TokenLayout layout_of(const orthornn_layout* layout) {
  const orthornn_layout& given = not_null("layout", layout);
  check_reserved("layout.reserved", given.reserved);
  const Order order = value_of("layout.order", given.order, Order::packed);
  const Index batch = size_of("layout.batch", given.batch, 0, std::numeric_limits<std::int32_t>::max());
  if (order == Order::packed) {
    if (given.lengths != nullptr)
      throw ArgumentError("layout.lengths must be NULL for a packed layout: offsets say the lengths");
    return TokenLayout::packed(
        std::span(&not_null("layout.offsets", given.offsets), static_cast<std::size_t>(batch) + 1));
  }
  if (given.offsets != nullptr)
    throw ArgumentError("layout.offsets must be NULL for a layout that is not packed");
  const Index length = size_of("layout.length", given.length, 0);
  bytes_of("a tensor of layout.batch times layout.length rows", {batch, length}, sizeof(double));
  const auto lengths =
      optional_view<const std::int32_t>("layout.lengths", given.lengths, {batch}, Device::cpu());
  return order == Order::time_major ? TokenLayout::time_major(length, batch, lengths)
                                    : TokenLayout::sequence_major(batch, length, lengths);
}

StackOperation::StackOperation(const orthornn_device* caller, Device device, TensorView<std::byte> kept,
                               std::size_t scratch, const LentArrays& arrays)
    : operation_(caller, arrays.workspace, arrays.workspace_bytes, workspace_of(device, scratch)),
      scratch_(scratch_of(device, scratch)),
      saved_(device) {
  if (!kept.empty()) saved_.lend(kept.data(), static_cast<std::size_t>(kept.size()));
  if (!scratch_.empty()) saved_.lend(scratch_.data(), scratch);
}

StackOperation::StackOperation(const orthornn_device* caller, const TokenLayout& layout, Device device,
                               Pass pass, const SavedMemory& memory, const LentArrays& arrays)
    : StackOperation(
          caller, device, kept_view(arrays, has_kept(pass, arrays) ? memory.kept : 0, device),
          pass == Pass::forward ? forward_scratch(memory, has_kept(pass, arrays)) : memory.backward, arrays) {
  push_layout_table(layout, pass == Pass::forward ? LayoutTable::write : LayoutTable::keep, saved_);
}

std::size_t StackOperation::forward_workspace(Device device, const SavedMemory& memory, bool keeps) {
  return workspace_of(device, forward_scratch(memory, keeps));
}

std::size_t StackOperation::backward_workspace(Device device, const SavedMemory& memory) {
  return workspace_of(device, memory.backward);
}

}  // namespace orthornn::c_api
