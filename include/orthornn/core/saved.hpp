#pragma once

#include <cstddef>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// A stack of tensors on one device. A forward pushes what its backward reads; the backward looks at it and
/// pops it. Memory grows to the most that was on the stack at once and stays, so the same sequence of pushes
/// gets the same addresses and allocates nothing.
class Saved {
 public:
  explicit Saved(Device device);
  Saved(Saved&&) = default;
  Saved& operator=(Saved&&) = default;

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

  /// Tensors on the stack.
  Index size() const { return static_cast<Index>(entries_.size()); }
  /// Bytes of memory that it holds, used or not.
  std::size_t bytes() const;

  /// Takes off at its end what was pushed in a scope, also when an exception ends it.
  class Scope {
   public:
    explicit Scope(Saved& saved) : saved_(saved), size_(saved.size()) {}
    ~Scope() { saved_.pop(saved_.size() - size_); }
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

  void* take(const Shape& shape, std::size_t element_bytes);
  const Entry& entry(Index below, std::size_t element_bytes) const;

  Device device_;
  std::vector<Tensor<std::byte>> blocks_;
  std::vector<Entry> entries_;
  std::size_t block_ = 0, offset_ = 0;
};

}  // namespace orthornn
