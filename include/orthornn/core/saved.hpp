#pragma once

#include <cstddef>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// A stack of tensors on one device. A forward pushes the tensors that its backward reads, and the backward
/// pops them. Memory is kept: equal pushes from an empty stack get equal addresses and allocate nothing.
/// Memory that has become too small is given back when the stack is empty again.
class Saved {
 public:
  /// Makes an empty stack, whose tensors will lie on `device`.
  explicit Saved(Device device);
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;

  /// Device on which all tensors of the stack lie.
  Device device() const { return device_; }

  /// Gives the stack memory of the caller on its device, behind the memory that it has. Tensors go where they
  /// fit behind the last one, and into memory of the stack's own where that has come to its end. The memory,
  /// of any alignment that the tensors' numbers allow, must outlive the stack.
  void lend(void* memory, std::size_t bytes);

  /// Puts a tensor on top, with unspecified elements. It is valid until it is popped. Throws std::bad_alloc,
  /// or DeviceError for a GPU, where memory is short.
  template <class T>
  TensorView<T> push(const Shape& shape) {
    return {static_cast<T*>(take(shape, sizeof(T))), shape, device_};
  }
  /// The tensor that has `below` others above it, as it was pushed. Throws ValueError where there is no such
  /// tensor, and where its elements have another size than T.
  template <class T>
  TensorView<T> top(Index below = 0) const {
    const Entry& found = entry(below, sizeof(T));
    return {static_cast<T*>(found.data), found.shape, device_};
  }
  /// Takes `count` tensors off the top, with the frames that end among them. Throws ValueError where there
  /// are fewer.
  void pop(Index count);
  /// Takes all tensors off.
  void clear() { pop(size()); }

  /// The tensors that one forward left, as `close_frame` marked them.
  struct Frame {
    /// Layer whose forward it was.
    const void* owner;
    Index length,  ///< Steps T of the input.
        batch;     ///< Sequences B of the input.
    /// Whether the sequences began in the layer's `initial_state`.
    bool own_start;
    Index first,  ///< Number of tensors below the frame.
        end;      ///< Number of tensors below the frame and in it.
    /// Address of the forward's output.
    const void* output = nullptr;
  };
  /// Marks the tensors above the lowest `frame.first` ones as those of one forward, and sets `frame.end`.
  void close_frame(Frame frame);
  /// The frame on top. Throws ValueError unless it is the owner's and nothing lies above it.
  const Frame& last_frame(const void* owner) const;
  /// Takes the mark off the owner's frame on top, so that the forwards within it can be popped one by one.
  /// Throws as `last_frame`.
  Frame open_frame(const void* owner);
  /// The owner's frame that ends at `end` tensors, where a frame above it begins. Throws ValueError where
  /// there is none.
  const Frame& frame_below(Index end, const void* owner) const;
  /// The owner's frame that was closed last, wherever it lies. Throws ValueError where there is none.
  const Frame& frame_of(const void* owner) const;

  /// Number of tensors on the stack.
  Index size() const { return static_cast<Index>(entries_.size()); }
  /// Bytes that a tensor takes on a stack, with the gap behind it.
  static std::size_t bytes_of(const Shape& shape, std::size_t element_bytes);
  /// Memory that the stack holds, used or not, in bytes.
  std::size_t bytes() const;
  /// Size of the tensors on the stack, in bytes.
  std::size_t used_bytes() const;

  /// Takes off at its end the tensors that were pushed during its life, also when an exception ends it.
  class Scope {
   public:
    /// Remembers the present number of tensors.
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
