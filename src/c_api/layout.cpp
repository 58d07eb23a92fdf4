#include "c_api/layout.hpp"

namespace orthornn::c_api {
namespace {

enum class Order { sequence_major, time_major, packed };

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

LentStack::LentStack(Device device, TensorView<std::byte> kept, std::size_t scratch)
    : scratch_(memory_of(device, scratch)), saved_(device) {
  if (!kept.empty()) saved_.lend(kept.data(), static_cast<std::size_t>(kept.size()));
  if (!scratch_.empty()) saved_.lend(scratch_.data(), scratch);
}

Tensor<std::byte> LentStack::memory_of(Device device, std::size_t scratch) {
  Tensor<std::byte> memory(Shape{0}, device);
  memory.reserve({static_cast<Index>(scratch)});
  return memory;
}

TensorView<std::byte> kept_view(void* saved, std::int64_t given, std::size_t expected, Device device) {
  if (size_of("saved_bytes", given, 0) != static_cast<Index>(expected))
    throw ArgumentError(fmt::format("saved has {} bytes, expected {}", given, expected));
  // It begins with a table of Index, whose alignment it needs.
  view_of<Index>("saved", saved, {static_cast<Index>(expected / sizeof(Index))}, device);
  if (saved == nullptr) return {};
  return TensorView<std::byte>(static_cast<std::byte*>(saved), {static_cast<Index>(expected)}, device);
}

}  // namespace orthornn::c_api
