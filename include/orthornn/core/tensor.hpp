#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "orthornn/core/device.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// A shaped window on memory that someone else owns. C order; const T for read-only windows.
///
/// The memory may come from anywhere, PyTorch or cudaMalloc: TensorView<float>(pointer, {T, B, N}, device).
/// It holds shape.count() numbers without gaps, each aligned as a T. Memory of a GPU was allocated on that
/// GPU. It must outlive the view, and on a GPU the operations that use it (`synchronize`). Work of others on
/// it must be over, or come earlier on `stream_of(device)`.
///
/// A tensor [.., N] is, in memory, the column-major N x (..) matrix that BLAS and Eigen want: a sequence
/// [T, B, N] is a matrix with one column for each time and sequence. No operation here transposes or copies.
template <class T>
class TensorView {
 public:
  TensorView() = default;
  TensorView(T* data, Shape shape, Device device = Device::cpu())
      : data_(data), shape_(shape), device_(device) {}
  /// A read-only window on a writable one.
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>) TensorView(const TensorView<U>& other)
      : TensorView(other.data(), other.shape(), other.device()) {}

  T* data() const { return data_; }
  const Shape& shape() const { return shape_; }
  Device device() const { return device_; }
  Index size() const { return data_ == nullptr ? 0 : shape_.count(); }
  bool empty() const { return size() == 0; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size(); }

  /// Element of host memory, one index a dimension; unchecked.
  template <class... I>
  T& operator()(I... indices) const {
    Index offset = 0;
    int dimension = 0;
    ((offset = offset * shape_[dimension++] + static_cast<Index>(indices)), ...);
    return data_[offset];
  }

  /// Entries first .. first + count - 1 of the first dimension.
  TensorView slice(Index first, Index count) const {
    Shape part{count};
    Index stride = 1;
    for (int i = 1; i < shape_.rank(); ++i) {
      part.append(shape_[i]);
      stride *= shape_[i];
    }
    return TensorView(data_ + first * stride, part, device_);
  }
  /// Entry i of the first dimension, which goes.
  TensorView operator[](Index i) const {
    Shape part;
    Index stride = 1;
    for (int k = 1; k < shape_.rank(); ++k) {
      part.append(shape_[k]);
      stride *= shape_[k];
    }
    return TensorView(data_ + i * stride, part, device_);
  }
  /// The same elements under another shape; throws ShapeError when the counts differ.
  TensorView reshaped(const Shape& shape) const {
    if (shape.count() != shape_.count()) check_shape("reshaped tensor", shape_, shape);
    return TensorView(data_, shape, device_);
  }

 private:
  T* data_ = nullptr;
  Shape shape_{0};
  Device device_ = Device::cpu();
};

/// A read-only window as a function parameter: never deduced from, so a Tensor<T> or TensorView<T> converts.
template <class T>
using ConstTensorView = TensorView<const std::type_identity_t<T>>;

/// Owns memory on a device. Moved, never copied by accident: `copy()` says so where it happens.
template <class T>
class Tensor {
 public:
  Tensor() = default;
  /// Zeros.
  explicit Tensor(Shape shape, Device device = Device::cpu()) : device_(device) { resize(shape); }
  Tensor(Tensor&& other) noexcept { swap(other); }
  /// Takes over memory that a TensorView may be made of. `release` is called once, when the tensor is done
  /// with it: at its end, or where it needs more memory. It must not throw. On a GPU, operations may still be
  /// using the memory then; cudaFree waits for them. Throws ValueError for an empty `release`.
  static Tensor adopt(T* data, const Shape& shape, Device device, std::function<void(T*)> release) {
    if (!release) throw ValueError("memory was adopted without a function that releases it; expected one");
    Tensor result;
    result.capacity_ = shape.count();
    result.foreign_ = std::make_unique<std::function<void(T*)>>(std::move(release));
    result.data_ = data;
    result.shape_ = shape;
    result.device_ = device;
    return result;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor(std::move(other)).swap(*this);
    return *this;
  }
  ~Tensor() { give_back(); }

  /// Gives it this shape and zeros; memory is taken anew only when what there is does not suffice. Throws
  /// ShapeError for more than 2^63 bytes, and what allocation throws; then the tensor is as it was.
  void resize(const Shape& shape) {
    reserve(shape);
    detail::fill_zero(device_, data_, shape.bytes(sizeof(T)));
  }
  /// The same without the zeros: what the elements hold is unspecified.
  void reserve(const Shape& shape) {
    if (shape.count() > capacity_) {
      void* memory = detail::allocate(device_, shape.bytes(sizeof(T)));
      give_back();
      data_ = static_cast<T*>(memory);
      capacity_ = shape.count();
    }
    shape_ = shape;
  }
  /// On the same device, or on another one.
  Tensor copy() const { return copy(device_); }
  Tensor copy(Device device) const {
    Tensor result;
    result.device_ = device;
    result.reserve(shape_);
    detail::copy_bytes(device, result.data_, device_, data_, data_ == nullptr ? 0 : shape_.bytes(sizeof(T)));
    return result;
  }

  TensorView<T> view() { return {data_, shape_, device_}; }
  TensorView<const T> view() const { return {data_, shape_, device_}; }
  operator TensorView<T>() { return view(); }
  operator TensorView<const T>() const { return view(); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  const Shape& shape() const { return shape_; }
  Device device() const { return device_; }
  Index size() const { return data_ == nullptr ? 0 : shape_.count(); }
  bool empty() const { return size() == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size(); }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size(); }
  template <class... I>
  T& operator()(I... indices) {
    return view()(indices...);
  }
  template <class... I>
  const T& operator()(I... indices) const {
    return view()(indices...);
  }

 private:
  void swap(Tensor& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(shape_, other.shape_);
    std::swap(device_, other.device_);
    std::swap(foreign_, other.foreign_);
  }
  void give_back() noexcept {
    if (foreign_ == nullptr) return detail::release(device_, data_);
    (*foreign_)(data_);
    foreign_.reset();
  }

  T* data_ = nullptr;
  /// What releases adopted memory; null for memory of its own.
  std::unique_ptr<std::function<void(T*)>> foreign_;
  Index capacity_ = 0;
  Shape shape_{0};
  Device device_ = Device::cpu();
};

/// Copies elements between tensors of one shape, on any devices; throws ShapeError.
template <class T>
void copy(ConstTensorView<T> from, TensorView<T> to) {
  check_shape("copied tensor", from.shape(), to.shape());
  detail::copy_bytes(to.device(), to.data(), from.device(), from.data(),
                     static_cast<std::size_t>(from.size()) * sizeof(T));
}

}  // namespace orthornn
