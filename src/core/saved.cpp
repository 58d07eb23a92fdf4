#include "orthornn/core/saved.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/lent_memory.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

// Many small tensors share a block; a large one has its own.
constexpr std::size_t largest_spare = std::size_t{64} << 20;

}  // namespace

Saved::Saved(Device device) : device_(device) {}

void Saved::lend(void* memory, std::size_t bytes) {
  const Shape shape{static_cast<Index>(bytes)};
  blocks_.push_back(
      {.memory = Tensor<std::byte>::adopt(static_cast<std::byte*>(memory), shape, device_, [](std::byte*) {}),
       .used = false});
}

void* Saved::take(const Shape& shape, std::size_t element_bytes) {
  const std::size_t bytes = bytes_of(shape, element_bytes);
  std::size_t block = block_, offset = offset_;
  while (block < blocks_.size() && offset + bytes > blocks_[block].bytes()) {
    ++block;
    offset = 0;
  }
  if (block == blocks_.size()) {
    Block fresh{.memory = Tensor<std::byte>(Shape{0}, device_), .used = false};
    fresh.memory.reserve({static_cast<Index>(std::max(bytes, std::min(this->bytes(), largest_spare)))});
    blocks_.push_back(std::move(fresh));
    grew_ = true;
  }
  void* data = blocks_[block].memory.data() + offset;
  entries_.push_back({data, shape, element_bytes, block_, offset_});
  blocks_[block].used = true;
  block_ = block;
  offset_ = offset + bytes;
  return data;
}

/// Gives back what tensors have outgrown: blocks that were too small for a round that needed new ones.
void Saved::end_round() {
  if (grew_) std::erase_if(blocks_, [](const Block& block) { return !block.used; });
  for (Block& block : blocks_) block.used = false;
  grew_ = false;
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

void Saved::close_frame(Frame frame) {
  frame.end = size();
  frames_.push_back(frame);
}

const Saved::Frame& Saved::last_frame(const void* owner) const {
  if (frames_.empty() || frames_.back().owner != owner || frames_.back().end != size()) {
    throw ValueError(
        "a backward was called without its forward; expected backwards in the reverse order of the forwards");
  }
  return frames_.back();
}

Saved::Frame Saved::open_frame(const void* owner) {
  const Frame frame = last_frame(owner);
  frames_.pop_back();
  return frame;
}

const Saved::Frame& Saved::frame_below(Index end, const void* owner) const {
  // A container's frame ends where that of its last layer does.
  const auto found = std::find_if(frames_.rbegin(), frames_.rend(), [&](const Frame& frame) {
    return frame.end == end && frame.owner == owner;
  });
  if (found == frames_.rend())
    throw ValueError(fmt::format("no forward of that layer ends after {} saved tensors", end));
  return *found;
}

const Saved::Frame& Saved::frame_of(const void* owner) const {
  const auto found = std::find_if(frames_.rbegin(), frames_.rend(),
                                  [&](const Frame& frame) { return frame.owner == owner; });
  if (found == frames_.rend()) throw ValueError("no forward of that layer is on the stack; run it first");
  return *found;
}

void Saved::pop(Index count) {
  if (count < 0 || count > size())
    throw ValueError(fmt::format("{} saved tensors to pop; there are {}", count, size()));
  if (count == 0) return;
  const Entry& last = entries_[static_cast<std::size_t>(size() - count)];
  block_ = last.block;
  offset_ = last.offset;
  entries_.erase(entries_.end() - count, entries_.end());
  while (!frames_.empty() && frames_.back().end > size()) frames_.pop_back();
  if (entries_.empty()) end_round();
}

std::size_t Saved::bytes_of(const Shape& shape, std::size_t element_bytes) {
  return LentMemory::padded(shape.bytes(element_bytes));
}

std::size_t Saved::used_bytes() const {
  std::size_t total = 0;
  for (const Entry& tensor : entries_) total += tensor.shape.bytes(tensor.element_bytes);
  return total;
}

std::size_t Saved::bytes() const {
  std::size_t total = 0;
  for (const Block& block : blocks_) total += block.bytes();
  return total;
}

}  // namespace orthornn
