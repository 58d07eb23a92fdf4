#include "orthornn/core/saved.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

// The alignment of cudaMalloc; a multiple of every vector and cache line.
constexpr std::size_t alignment = 256;
// Many small tensors share a block; a large one has its own.
constexpr std::size_t largest_spare = std::size_t{64} << 20;

std::size_t size_of(const Tensor<std::byte>& block) { return static_cast<std::size_t>(block.shape()[0]); }

}  // namespace

Saved::Saved(Device device) : device_(device) {}

void* Saved::take(const Shape& shape, std::size_t element_bytes) {
  const std::size_t bytes = (shape.bytes(element_bytes) + alignment - 1) / alignment * alignment;
  std::size_t block = block_, offset = offset_;
  while (block < blocks_.size() && offset + bytes > size_of(blocks_[block])) {
    ++block;
    offset = 0;
  }
  if (block == blocks_.size()) {
    Tensor<std::byte> memory(Shape{0}, device_);
    memory.reserve({static_cast<Index>(std::max(bytes, std::min(this->bytes(), largest_spare)))});
    blocks_.push_back(std::move(memory));
  }
  void* data = blocks_[block].data() + offset;
  entries_.push_back({data, shape, element_bytes, block_, offset_});
  block_ = block;
  offset_ = offset + bytes;
  return data;
}

const Saved::Entry& Saved::entry(Index below, std::size_t element_bytes) const {
  if (below < 0 || below >= size())
    throw ValueError(fmt::format("saved tensor {} from the top; there are {}", below, size()));
  const Entry& found = entries_[static_cast<std::size_t>(size() - 1 - below)];
  if (found.element_bytes != element_bytes) {
    throw ValueError(
        fmt::format("saved tensor {} from the top has elements of {} bytes, expected {}; a backward "
                    "must follow the forward that is last on the stack",
                    below, found.element_bytes, element_bytes));
  }
  return found;
}

void Saved::pop(Index count) {
  if (count < 0 || count > size())
    throw ValueError(fmt::format("{} saved tensors to pop; there are {}", count, size()));
  if (count == 0) return;
  const Entry& last = entries_[static_cast<std::size_t>(size() - count)];
  block_ = last.block;
  offset_ = last.offset;
  entries_.erase(entries_.end() - count, entries_.end());
}

std::size_t Saved::bytes() const {
  std::size_t total = 0;
  for (const Tensor<std::byte>& block : blocks_) total += size_of(block);
  return total;
}

}  // namespace orthornn
