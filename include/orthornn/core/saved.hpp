#pragma once

#include <cstddef>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// A stack of tensors on one device. A forward pushes what its backward reads; the backward pops it. Memory
/// stays: the same pushes from an empty stack get the same addresses and allocate nothing. Memory that has
/// become too small is given back when the stack is empty again.
class Saved {
 public:
  explicit Saved(Device device);
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;

  Device device() const { return device_; }

  /// Puts a tensor on top; what its elements hold is unspecified. It is valid until it is popped.
  template <class T>
  TensorView<T> push(const Shape& shape) {
    return {static_cast<T*>(take(shape, sizeof(T))), shape, device_};
  }
  /// The tensor that has `below` others above it, as it was pushed.
  template <class T>
  TensorView<T> top(Index below = 0) const {
    const Entry& found = entry(below, sizeof(T));
    return {static_cast<T*>(found.data), found.shape, device_};
  }
  /// Takes `count` tensors off. Throws ValueError where there are fewer.
  void pop(Index count);
  /// Takes all off.
  void clear() { pop(size()); }

  /// What one forward left, as `close_frame` marked it.
  struct Frame {
    const void* owner;
    /// Steps and sequences of the input.
    Index length, batch;
    /// Whether the sequences began in states of the layer's own.
    bool own_start;
    /// Tensors below it, and with it.
    Index first, end;
    /// Where what the forward returned begins.
    const void* output = nullptr;
  };
  /// Marks what lies above the lowest `frame.first` tensors as one forward's; sets `frame.end`.
  void close_frame(Frame frame);
  /// The frame on top. Throws ValueError unless it is the owner's and nothing lies above it.
  const Frame& last_frame(const void* owner) const;
  /// Takes the mark off the owner's frame on top, so that the forwards within it can be popped one by one.
  /// Throws as `last_frame`.
  Frame open_frame(const void* owner);
  /// The owner's frame below another one that begins at `end`. Throws ValueError where there is none.
  const Frame& frame_below(Index end, const void* owner) const;
  /// The owner's frame that was closed last, wherever it lies. Throws ValueError where there is none.
  const Frame& frame_of(const void* owner) const;

  /// Tensors on the stack.
  Index size() const { return static_cast<Index>(entries_.size()); }
  /// Bytes of memory that it holds, used or not.
  std::size_t bytes() const;
  /// Bytes of the tensors on it.
  std::size_t used_bytes() const;

  /// Takes off at its end what was pushed in a scope, also when an exception ends it.
  class Scope {
   public:
    explicit Scope(Saved& saved) : saved_(saved), size_(saved.size()) {}
    ~Scope() {
      if (saved_.size() > size_) saved_.pop(saved_.size() - size_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Saved& saved_;
    Index size_;
  };

 private:
  struct Entry {
    void* data;
    Shape shape;
    std::size_t element_bytes;
    /// Where the next tensor would have gone before this one came.
    std::size_t block, offset;
  };

  struct Block {
    Tensor<std::byte> memory;
    /// Since the stack was empty last.
    bool used;
    std::size_t bytes() const { return static_cast<std::size_t>(memory.shape()[0]); }
  };

  void* take(const Shape& shape, std::size_t element_bytes);
  void end_round();
  const Entry& entry(Index below, std::size_t element_bytes) const;

  Device device_;
  std::vector<Block> blocks_;
  /// Whether a block was added since the stack was empty last.
  bool grew_ = false;
  std::vector<Entry> entries_;
  std::vector<Frame> frames_;
  std::size_t block_ = 0, offset_ = 0;
};

}  // namespace orthornn
